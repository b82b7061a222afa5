"""A real kube-scheduler asks our extender over TLS, by the configuration that the cluster's page shows."""

import os
from pathlib import Path

import pytest
import yaml

from apps.executions.proving.asking import proof_standing
from apps.executions.states import Obedience
from apps.placing.models import Verdict
from tests.control_plane import WHY_SKIPPED, ControlPlane
from tests.executions.real_cluster import Kubelets
from tests.scheduling.extender_site import (
    FAST,
    Site,
    a_gang_starts_as_a_whole_or_not_at_all,
    pods_go_where_we_score_highest,
    topology_is_refused_and_granted,
)
from tests.scheduling.test_extender_story import hold_a_node_for_its_gang
from tests.scheduling.test_obedience_story import LEASE, prove, see

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.control_plane,
    pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason=WHY_SKIPPED),
    pytest.mark.timeout(600),
]


@pytest.fixture
def open_site(transactional_db, settings, tmp_path):
    """open_site(leads=False, **facts of the extender's entry): one for each test."""
    ends = []

    def open_one(*, leads=False, **facts):
        plane = ControlPlane(Path(os.environ["KUBEBUILDER_ASSETS"]), tmp_path)
        found = Site(tmp_path, settings, kubeconfig_file=str(tmp_path / "kubeconfig"), seconds=120)
        ends.append(found.close)
        told = yaml.safe_load(found.configuration.read_text())
        told["leaderElection"] = {"leaderElect": leads}
        told["extenders"][0] |= facts
        found.configuration.write_text(yaml.safe_dump(told))
        plane.scheduler_config = str(found.configuration)
        ends.append(plane.stop)
        plane.start()
        if not plane.has_controllers:
            pytest.fail("this story needs kube-controller-manager and kube-scheduler in KUBEBUILDER_ASSETS")
        kubelets = Kubelets(plane, time_scale=10)
        ends.insert(1, kubelets.stop)
        found.open(plane)
        return found

    yield open_one
    for end in ends:
        end()


def test_a_real_scheduler_follows_the_extender(open_site):
    site = open_site()
    site.furnish(slow="l40s", fast_1="a100-sxm4-80gb", fast_2="a100-sxm4-80gb")
    fullest = topology_is_refused_and_granted(site)
    (empty,) = FAST - {fullest}
    pods_go_where_we_score_highest(site, fullest)
    a_gang_starts_as_a_whole_or_not_at_all(site, empty)
    hold_a_node_for_its_gang(site, empty)
    site.until(
        lambda: Verdict.objects.filter(pod_key="work/small", verb="prioritize"), "the verdict is a row"
    )
    best = Verdict.objects.filter(pod_key="work/small", verb="prioritize").first().top[0]
    assert (best["node"], best["score"]) == (fullest, 10)


@pytest.mark.parametrize(("is_ignorable", "result"), [(False, Obedience.OBEYS), (True, Obedience.IGNORES)])
def test_whether_a_real_scheduler_waits_for_the_extender_is_proved(open_site, is_ignorable, result):
    """The pods that it is proved with name the accelerator and ask for none of it."""
    site = open_site(leads=True, ignorable=is_ignorable)
    site.furnish(node_a="a100-sxm4-80gb")
    see(site)
    holder = site.until(lambda: site.get(LEASE), "a leader")["spec"]["holderIdentity"]
    row = prove(site)
    assert row.result == result, row.words
    assert proof_standing(site.cluster).is_proved is not is_ignorable
    assert not row.holder or row.holder == holder
    probes = "/api/v1/namespaces/gpu-defrag/pods"
    site.until(lambda: not site.plane.ask("GET", probes)["items"], "no pod is left")
