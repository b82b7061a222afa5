"""A real control plane for tests, by the envtest convention.

`kube-apiserver` and `etcd` are started from the folder in KUBEBUILDER_ASSETS, and
`kube-controller-manager` and `kube-scheduler` too where the folder holds them. Tests that use the
fixture `control_plane` are skipped, with the reason, where the variable is unset.
"""

from __future__ import annotations

import base64
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.kube.kubeconfig import Credentials, read_kubeconfig
from apps.kube.kubernetes_gateway import KubernetesGateway
from apps.simulator.api_server.certificates import issue_certificate
from console.embedded import die_with_parent, free_port
from tests.cluster_fixtures import ask, wait_until

READY_SECONDS = 90
WHY_SKIPPED = "KUBEBUILDER_ASSETS is not set: no kube-apiserver and etcd to test against"


class ControlPlane:
    """etcd, kube-apiserver and, where present, the controller manager and the scheduler."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs = programs
        self.folder = folder
        self.token = secrets.token_urlsafe(24)
        self.scheduler_config = ""  # a KubeSchedulerConfiguration for kube-scheduler
        self.more_tokens = ""  # lines of the API server's token file: token,user,uid
        self.certificate = issue_certificate(("localhost", "kubernetes"))
        self.url = f"https://127.0.0.1:{free_port()}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        for name, text in {
            "tls.crt": self.certificate.certificate_pem,
            "tls.key": self.certificate.key_pem,
            "kubeconfig": self.kubeconfig,
            "tokens.csv": f"{self.token},admin,admin,system:masters\n{self.more_tokens}",
        }.items():
            (self.folder / name).touch(mode=0o600)
            (self.folder / name).write_text(text)
        done = subprocess.run(
            ["openssl", "genrsa", "-out", str(self.folder / "sa.key"), "2048"],
            capture_output=True,
            check=True,
        )
        assert done.returncode == 0
        self._start_etcd_and_server()
        wait_until(self._is_ready, seconds=READY_SECONDS, what=self._logs())
        if (self.programs / "kube-controller-manager").exists():
            self._start_controllers()
        # The admission of pods wants a service account, which the controller manager makes.
        if self.has_controllers:
            path = "/api/v1/namespaces/default/serviceaccounts/default"
            wait_until(lambda: self._exists(path), seconds=READY_SECONDS, what=self._logs())

    @property
    def has_controllers(self) -> bool:
        return all((self.programs / f"kube-{name}").exists() for name in ("controller-manager", "scheduler"))

    @property
    def kubeconfig(self) -> str:
        cluster = {
            "server": self.url,
            "certificate-authority-data": base64.b64encode(self.certificate.ca_pem.encode()).decode(),
        }
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "real", "cluster": cluster}],
                "users": [{"name": "admin", "user": {"token": self.token}}],
                "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
                "current-context": "real",
            }
        )

    @property
    def credentials(self) -> Credentials:
        return read_kubeconfig(self.kubeconfig)

    def gateway(self, **options: Any) -> KubernetesGateway:
        found = self.credentials
        return KubernetesGateway(server=found.server, ca=found.ca, token=found.token, **options)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        return ask(self.credentials, method, path, body, **headers)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start_etcd_and_server(self) -> None:
        etcd = f"http://127.0.0.1:{free_port()}"
        self._run(
            "etcd",
            *("--data-dir", str(self.folder / "etcd"), "--unsafe-no-fsync=true"),
            *("--listen-client-urls", etcd, "--advertise-client-urls", etcd),
            *("--listen-peer-urls", f"http://127.0.0.1:{free_port()}"),
        )
        key = str(self.folder / "sa.key")
        self._run(
            "kube-apiserver",
            *(
                "--etcd-servers",
                etcd,
                "--bind-address=127.0.0.1",
                f"--secure-port={self.url.rpartition(':')[2]}",
            ),
            *("--tls-cert-file", str(self.folder / "tls.crt"), "--tls-private-key-file"),
            *(str(self.folder / "tls.key"), "--token-auth-file", str(self.folder / "tokens.csv")),
            *("--service-account-issuer=https://kubernetes", "--service-account-key-file", key),
            *("--service-account-signing-key-file", key, "--service-cluster-ip-range=10.0.0.0/24"),
            *("--authorization-mode=RBAC", "--cert-dir", str(self.folder / "certs"), "--profiling=false"),
            *("--endpoint-reconciler-type=none", "--anonymous-auth=false"),
        )

    def _start_controllers(self) -> None:
        kubeconfig = str(self.folder / "kubeconfig")
        common = ("--kubeconfig", kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1")
        self._run(
            "kube-controller-manager",
            *common,
            *("--service-account-private-key-file", str(self.folder / "sa.key"), "--secure-port=0"),
            *("--use-service-account-credentials=false", "--controllers=*,-nodeipam,-cloud-node-lifecycle"),
        )
        if self.has_controllers:
            told = ("--config", self.scheduler_config) if self.scheduler_config else common
            self._run("kube-scheduler", *told, "--bind-address=127.0.0.1", f"--secure-port={free_port()}")

    def _run(self, name: str, *arguments: str) -> None:
        log = (self.folder / f"{name}.log").open("wb")
        with log:
            self.processes.append(
                subprocess.Popen(
                    [str(self.programs / name), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                    preexec_fn=die_with_parent,
                )
            )

    def _is_ready(self) -> bool:
        ended = [process.args for process in self.processes if process.poll() is not None]
        assert not ended, f"{ended} ended by itself:\n{self._logs()}"
        return self._exists("/readyz")

    def _exists(self, path: str) -> bool:
        try:
            return bool(self.ask("GET", path))
        except OSError:
            time.sleep(0.2)
            return False

    def _logs(self) -> str:
        return "\n".join(
            f"--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-12:])
            for log in sorted(self.folder.glob("*.log"))
        )


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        pytest.skip(WHY_SKIPPED)
    plane = ControlPlane(Path(assets), tmp_path_factory.mktemp("control-plane"))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
