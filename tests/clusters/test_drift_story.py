"""Drift on a living cluster: labels that lie, a GPU that falls off the bus, a MIG layout lost in a reboot.

Each is seen within half a minute, named on the node's page, and no plan uses what is not there.
"""

import pytest
from django.test import Client

from apps.clusters.services import register_cluster
from apps.planner.drift import MIG_PREFIX
from apps.planner.fitting import why_not
from apps.planner.inventory import LinkClass
from apps.planner.rooms import free_room
from apps.planner.topology import best_group
from tests.cluster_fixtures import wait_until
from tests.clusters.looking import picture_of
from tests.dashboard.conftest import make_person

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("quick_pictures"),
    pytest.mark.timeout(180),
]
SECONDS = 30
BACKEND = "django.contrib.auth.backends.ModelBackend"
CONFIG = "nvidia.com/mig.config"


def test_drift_is_seen_named_and_kept_out_of_plans(simulated_cluster, watchers):
    simulated = simulated_cluster(scene="mig", time_scale=30)
    cluster = register_cluster(actor=None, name="sim", kubeconfig=simulated.kubeconfig)
    before = wait_until(lambda: picture_of(cluster), seconds=SECONDS)
    joined, losing, cut = choose_nodes(before)
    assert best_group(before.nodes[joined], range(8), 8, LinkClass.NVLINK) is not None

    for fault, name in (("label-drift", joined), ("gpu-lost", losing), ("mig-layout-lost", cut)):
        simulated.ask("POST", "/_sim/faults", {"name": fault, "node": name})
    told = wait_until(
        lambda: drifted(picture_of(cluster), joined=joined, losing=losing, cut=cut), seconds=SECONDS
    )
    assert "the node agent sees only PHB, PIX, SYS" in told[joined]
    assert "8 healthy GPUs were seen here, now there are 7" in told[losing]
    assert "though its label is the same" in told[cut]

    now = picture_of(cluster)
    assert best_group(now.nodes[joined], range(8), 8, LinkClass.NVLINK) is None
    assert sum(gpu.healthy for gpu in now.nodes[losing].gpus) == 7
    assert not any(name.startswith(MIG_PREFIX) and n for name, n in now.nodes[cut].allocatable.items())
    rooms = free_room(now)
    mover = next(pod for pod in now.pods.values() if pod.node_name and pod.node_name not in told)
    for name in (losing, cut):
        assert "node shows less than it did" in why_not(rooms, mover, now.nodes[name])

    browser = Client()
    browser.force_login(make_person("ann", "viewer", cluster=cluster), BACKEND)
    for name, sentence in told.items():
        page = browser.get(f"/clusters/{cluster.name}/nodes/{name}/").content.decode()
        assert sentence.split(";")[0][:60] in page.replace("&#x27;", "'"), name


def choose_nodes(picture):
    """One whose GPUs NVLink joins, one to lose a GPU, one that is cut; all with a node agent."""
    told = [node for node in picture.nodes.values() if node.topology is not None and len(node.gpus) == 8]
    cut = next(node for node in told if any(gpu.instances for gpu in node.gpus) and node.labels.get(CONFIG))
    whole = [node for node in told if not any(gpu.instances for gpu in node.gpus) and "SXM" in node.model]
    joined = whole[0]
    losing = next(node for node in told if node.name not in (joined.name, cut.name))
    return joined.name, losing.name, cut.name


def drifted(picture, **names):
    """Sentences by node, once each of them has one."""
    told = {
        names["joined"]: [
            line for line in picture.nodes[names["joined"]].warnings if "joined by NVLink" in line
        ],
        names["losing"]: list(picture.nodes[names["losing"]].drift),
        names["cut"]: list(picture.nodes[names["cut"]].drift),
    }
    return {name: "; ".join(lines) for name, lines in told.items()} if all(told.values()) else None
