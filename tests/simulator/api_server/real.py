"""A real etcd and kube-apiserver, without controllers, in the place of the simulated API server.

The behaviour tests ask both the same questions, so that what they say of a real server is true.
"""

import base64
import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path

from apps.simulator.api_server.bootstrap import POD_GROUP_CRD
from console.embedded import die_with_parent
from tests.cluster_fixtures import wait_until
from tests.control_plane import ControlPlane

CORE = "/api/v1/namespaces/default"
NAMESPACED = (
    "/api/v1 pods configmaps secrets resourcequotas events serviceaccounts",
    "/apis/policy/v1 poddisruptionbudgets",
    "/apis/coordination.k8s.io/v1 leases",
    "/apis/apps/v1 deployments",
    "/apis/batch/v1 jobs",
    "/apis/scheduling.x-k8s.io/v1alpha1 podgroups",
    "/apis/resource.k8s.io/v1 resourceclaims",
)
CLUSTER_WIDE = ("/api/v1/nodes", "/apis/resource.k8s.io/v1/resourceslices")
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


class RealServer:
    def __init__(self, folder):
        programs = folder / "programs"
        programs.mkdir()
        for name in ("etcd", "kube-apiserver"):
            (programs / name).symlink_to(Path(os.environ["KUBEBUILDER_ASSETS"]) / name)
        self.plane = ControlPlane(programs, folder)
        self.plane.token = "admin-token"
        self.plane.more_tokens = "nobody-token,nobody,nobody\n"
        self.plane.start()
        self.plane.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", POD_GROUP_CRD)
        self.clear()

    @property
    def url(self):
        return self.plane.url

    @property
    def ca_pem(self):
        return self.plane.certificate.ca_pem

    def kubeconfig(self):
        return self.plane.kubeconfig

    def clear(self):
        """Nothing is left of what an earlier test made in the default namespace."""
        now = {"gracePeriodSeconds": 0}
        for line in NAMESPACED:
            base, *plurals = line.split()
            for plural in plurals:
                path = f"{base}/namespaces/default/{plural}"
                wait_until(lambda path=path: self._exists(path), seconds=20, what=path)
                for each in self.plane.ask("GET", path)["items"]:
                    one = f"{path}/{each['metadata']['name']}"
                    if each["metadata"].get("finalizers"):
                        self.plane.ask("PATCH", one, {"metadata": {"finalizers": None}})
                if self.plane.ask("GET", path)["items"]:
                    self.plane.ask("DELETE", path, now)
        for path in CLUSTER_WIDE:
            self.plane.ask("DELETE", path, now)
        for each in self.plane.ask("GET", CLASSES)["items"]:
            if not each["metadata"]["name"].startswith("system-"):
                self.plane.ask("DELETE", f"{CLASSES}/{each['metadata']['name']}")
        # Made by a controller elsewhere; the admission of pods wants it.
        self.plane.ask("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "default"}})

    def forget_history(self):
        """Compacts etcd and starts the API server anew: only then are old revisions gone from its cache."""
        store, server = self.plane.processes[0], self.plane.processes[1]
        etcd = store.args[store.args.index("--listen-client-urls") + 1]
        key = base64.b64encode(b"/x").decode()
        revision = self._ask_etcd(f"{etcd}/v3/kv/range", {"key": key})["header"]["revision"]
        self._ask_etcd(f"{etcd}/v3/kv/compaction", {"revision": revision, "physical": True})
        server.terminate()
        server.wait(30)
        with (self.plane.folder / "kube-apiserver-2.log").open("ab") as log:
            self.plane.processes[1] = subprocess.Popen(
                server.args, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
            )
        wait_until(lambda: self._exists("/readyz"), seconds=60, what="the API server is back")
        wait_until(lambda: self._exists(f"{CORE}/secrets"), seconds=60, what="it answers lists")

    def stop(self):
        self.plane.stop()

    def _exists(self, path):
        try:
            return bool(self.plane.ask("GET", path))
        except OSError:
            time.sleep(0.1)
            return False

    def _ask_etcd(self, url, body):
        with urllib.request.urlopen(url, data=json.dumps(body).encode(), timeout=10) as answer:
            return json.load(answer)
