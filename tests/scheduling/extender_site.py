"""A registered cluster whose scheduler asks our extender over TLS, by the configuration that its page shows.

The extender runs in a thread of this program, as `manage.py serve_extender` runs it; the cluster is the
simulated one or a real control plane with our kubelets.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import urllib.error
import urllib.request
from pathlib import Path

import yaml
from aiohttp import web

from apps.clusters.models import Cluster
from apps.clusters.services import register_cluster
from apps.placing.addresses import url_prefix_of
from apps.placing.configuration import make_configuration
from apps.placing.models import PlacementPolicy
from apps.scheduling.certificates import provide_certificates
from apps.scheduling.extender.assembling import make_tls
from apps.scheduling.extender.keeping import make_kept_extender
from console.embedded import free_port
from tests.cluster_fixtures import wait_until

NAMESPACE = "work"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class Site:
    """seconds: how long anything may take to happen there."""

    def __init__(self, folder: Path, settings, *, kubeconfig_file: str = "", seconds: float = 60) -> None:
        self.seconds = seconds
        self.certificates = provide_certificates(folder / "tls", "127.0.0.1")
        self.port = free_port()
        settings.EXTENDER_URL = f"https://127.0.0.1:{self.port}"
        settings.EXTENDER_CA_FILE = str(self.certificates.ca)
        self.cluster = Cluster.objects.create(name="site", server="https://127.0.0.1:1", is_active=False)
        policy = PlacementPolicy.objects.create(cluster=self.cluster, weight=100, is_ignorable=False)
        prefix = url_prefix_of(policy, shows_secret=True)
        told = make_configuration(policy, prefix, ["nvidia.com/gpu"], kubeconfig=kubeconfig_file)
        self.configuration = folder / "scheduler.yaml"
        self.configuration.write_text(yaml.safe_dump(told))
        self.prefix = prefix
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner: web.AppRunner | None = None

    def open(self, plane) -> None:
        """plane: what `ask` and `kubeconfig` are of. The extender answers from now on."""
        self.plane = plane
        made = register_cluster(actor=None, name="made", kubeconfig=plane.kubeconfig)
        # The address was told to the scheduler before there was a cluster to register.
        names = ("server", "ca_certificate", "credential", "kube_system_uid", "version", "is_active")
        facts = {name: getattr(made, name) for name in names}
        made.delete()
        Cluster.objects.filter(pk=self.cluster.pk).update(**facts)
        self.cluster.refresh_from_db()
        self.answer_again()

    def answer_again(self) -> None:
        self._await(self._serve(make_kept_extender(self.cluster)))

    def silence(self) -> None:
        """The extender ends."""
        if self._runner is not None:
            self._await(self._runner.cleanup())
            self._runner = None

    async def _serve(self, app: web.Application) -> None:
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        tls = make_tls(str(self.certificates.certificate), str(self.certificates.key))
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=tls).start()

    def close(self) -> None:
        self.silence()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _await(self, work) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    # --- what a story says ---

    def furnish(self, **models: str) -> None:
        """Nodes of 8 by name, each with its model, Ready and with their links told."""
        self.plane.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name, model in models.items():
            marks = {"sim.gpu.internal/hardware": f"{model}:8"}
            body = {"metadata": {"name": name.replace("_", "-"), "annotations": marks}}
            self.plane.ask("POST", "/api/v1/nodes", body)

        def are_ready() -> bool:
            nodes = self.plane.ask("GET", "/api/v1/nodes")["items"]
            return len(nodes) == len(models) and all(_is_ready(node) for node in nodes)

        self.until(are_ready, "the nodes are Ready and tell their links")
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        self.until(lambda: self.get(account), "the namespace's account")

    def add_pod(self, name: str, gpus: int, *, annotations=None, labels=None, **spec) -> None:
        limits = {"limits": {"nvidia.com/gpu": str(gpus), "cpu": "1"}}
        container = {"name": "main", "image": "registry.invalid/work", "resources": limits}
        marks = {f"defrag.gpu.internal/{key}": value for key, value in (annotations or {}).items()}
        meta = {"name": name, "annotations": marks, "labels": labels or {"app": name}}
        self.plane.ask("POST", PODS, {"metadata": meta, "spec": {"containers": [container], **spec}})

    def add_gang(self, name: str, members: int, gpus: int) -> None:
        """A Job whose pods start together or not at all."""
        limits = {"limits": {"nvidia.com/gpu": str(gpus), "cpu": "1"}}
        container = {"name": "main", "image": "registry.invalid/work", "resources": limits}
        template = {
            "metadata": {"labels": {"app": name}, "annotations": {"defrag.gpu.internal/gang": "true"}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        spec = {"parallelism": members, "completions": members, "template": template}
        path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
        self.plane.ask("POST", path, {"metadata": {"name": name}, "spec": spec})

    def pods(self, app: str) -> list:
        return self.plane.ask("GET", f"{PODS}?labelSelector=app={app}")["items"]

    def until_bound(self, name: str) -> str:
        return self.until(lambda: self.pod(name)["spec"].get("nodeName"), f"{name} is bound")

    def until_refused(self, name: str, words: str) -> str:
        told = [""]

        def is_told() -> bool:
            told[0] = refusal_of(self.pod(name))
            return words in told[0]

        try:
            self.until(is_told, words)
        except AssertionError as error:
            raise AssertionError(f"{name} is told {told[0]!r}: {error}") from error
        return told[0]

    def pod(self, name: str):
        return self.plane.ask("GET", f"{PODS}/{name}")

    def delete_pod(self, name: str) -> None:
        self.plane.ask("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    def get(self, path: str):
        try:
            return self.plane.ask("GET", path)
        except OSError:
            return None

    def until(self, ask, what: str):
        try:
            return wait_until(ask, seconds=self.seconds, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}; the extender: {self._says_of_itself()}") from error

    def _says_of_itself(self) -> str:
        trust = ssl.create_default_context(cafile=str(self.certificates.ca))
        try:
            address = f"https://127.0.0.1:{self.port}/readyz"
            return urllib.request.urlopen(address, context=trust, timeout=5).read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError as error:
            return f"does not answer ({error})"


def refusal_of(pod) -> str:
    """What the scheduler says of a pod that it cannot place."""
    conditions = pod["status"].get("conditions") or []
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")


def _is_ready(node) -> bool:
    is_up = any(
        c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions") or []
    )
    has_gpus = "nvidia.com/gpu" in (node["status"].get("allocatable") or {})
    has_links = "topology.gpu.internal/matrix" in node["metadata"].get("annotations", {})
    return is_up and has_gpus and has_links and not node["spec"].get("taints")


# --- the stories, told of the simulated scheduler and of the real one ---

FAST = {"fast-1", "fast-2"}


def topology_is_refused_and_granted(site: Site) -> str:
    """`slow` has no NVLink: a pod that wants it there waits with the reason, a free one goes elsewhere,
    to the node that is the answer."""
    wish = {"link": "nvlink"}
    site.add_pod("pinned", 4, annotations=wish, nodeSelector={"kubernetes.io/hostname": "slow"})
    site.until_refused("pinned", "1 no 4-GPU group with the wanted bandwidth (NVLink)")
    site.add_pod("free", 4, annotations=wish)
    place = site.until_bound("free")
    assert place in FAST
    return place


def pods_go_where_we_score_highest(site: Site, fullest: str) -> None:
    """The scheduler by itself would take an emptier node."""
    site.add_pod("small", 2)
    assert site.until_bound("small") == fullest


def a_gang_starts_as_a_whole_or_not_at_all(site: Site, empty: str) -> None:
    """Two of 8 are wanted and one node alone is empty; then `slow` is as well."""
    site.add_pod("blocker", 1, nodeSelector={"kubernetes.io/hostname": "slow"})
    assert site.until_bound("blocker") == "slow"
    site.add_gang("gang", 2, 8)

    def are_refused() -> bool:
        told = [refusal_of(pod) for pod in site.pods("gang")]
        return len(told) == 2 and all("does not fit as a whole" in message for message in told)

    site.until(are_refused, "both members are told that the gang does not fit")
    assert not any(pod["spec"].get("nodeName") for pod in site.pods("gang"))
    site.delete_pod("blocker")

    def are_bound() -> bool:
        return {pod["spec"].get("nodeName") for pod in site.pods("gang")} == {empty, "slow"}

    site.until(are_bound, "the whole gang has its nodes")
