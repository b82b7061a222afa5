"""Drift on a living cluster: labels that lie, a GPU that falls off the bus, a MIG layout lost in a reboot.

Each is seen within half a minute, named on the node's page, and no plan uses what is not there.
"""

import pytest
from django.test import Client

from apps.accounts.models import Role, RoleGrant, User
from apps.clusters.services import register_cluster
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
    simulated = simulated_cluster(scene="mig", time_scale=10)
    cluster = register_cluster(actor=None, name="sim", kubeconfig=simulated.kubeconfig)
    before = wait_until(lambda: picture_of(cluster), seconds=SECONDS)
    joined, losing, cut = choose_nodes(before)
    assert best_group(before.nodes[joined], range(8), 8, LinkClass.NVLINK) is not None
    browser = Client()
    browser.force_login(make_person("ann", "viewer", cluster=cluster), BACKEND)

    def see(fault, name, sentence):
        """The picture in which it shows, once the node's page says it too."""
        simulated.ask("POST", "/_sim/faults", {"name": fault, "node": name})

        def is_told():
            picture = picture_of(cluster)
            page = browser.get(f"/clusters/{cluster.name}/nodes/{name}/").content.decode()
            return picture if any(sentence in line for line in picture.nodes[name].warnings) and (
                sentence in page
            ) else None  # fmt: skip

        return wait_until(is_told, seconds=SECONDS)

    now = see("label-drift", joined, "the node agent sees only PHB, PIX, SYS")
    assert best_group(now.nodes[joined], range(8), 8, LinkClass.NVLINK) is None

    now = see("gpu-lost", losing, "8 healthy GPUs were seen here, now there are 7")
    assert sum(gpu.healthy for gpu in now.nodes[losing].gpus) == 7
    assert is_no_target(now, losing)

    address = f"/clusters/{cluster.name}/nodes/{losing}/accept/"

    def is_accepted():
        """By whoever looks at the page and presses the button: what it shows may change in between."""
        shown = picture_of(cluster).nodes[losing]
        status = browser.post(address, {"uid": shown.uid, "drift": shown.drift}).status_code
        return status == 302 and not shown.drift

    earlier = {"uid": now.nodes[losing].uid, "drift": ["something that was shown before"]}
    assert browser.post(address, earlier).status_code == 403
    RoleGrant.objects.create(user=User.objects.get(username="ann"), role=Role.OPERATOR, cluster=cluster)
    wait_until(is_accepted, seconds=SECONDS)

    now = see("mig-layout-lost", cut, "are offered though its label is the same")
    assert is_no_target(now, cut)
    lost = sum(before.nodes[cut].allocatable.values()) - sum(now.nodes[cut].allocatable.values())
    assert lost > 0


def is_no_target(picture, name) -> bool:
    mover = next(pod for pod in picture.pods.values() if pod.node_name not in ("", name))
    return "node shows less than it did" in why_not(free_room(picture), mover, picture.nodes[name])


def choose_nodes(picture):
    """One whose GPUs NVLink joins, one to lose a GPU, one that is cut; all with a node agent."""
    told = [node for node in picture.nodes.values() if node.topology is not None and len(node.gpus) == 8]
    cut = next(node for node in told if any(gpu.instances for gpu in node.gpus) and node.labels.get(CONFIG))
    whole = [node for node in told if not any(gpu.instances for gpu in node.gpus) and "SXM" in node.model]
    joined = whole[0]
    losing = next(node for node in told if node.name not in (joined.name, cut.name))
    return joined.name, losing.name, cut.name
