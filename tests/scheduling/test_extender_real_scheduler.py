"""A real kube-scheduler asks our extender over TLS, by the configuration that the cluster's page shows."""

import os
from pathlib import Path

import pytest

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

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.control_plane,
    pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason=WHY_SKIPPED),
    pytest.mark.timeout(600),
]


@pytest.fixture
def site(transactional_db, settings, tmp_path):
    plane = ControlPlane(Path(os.environ["KUBEBUILDER_ASSETS"]), tmp_path)
    found = Site(tmp_path, settings, kubeconfig_file=str(tmp_path / "kubeconfig"), seconds=120)
    plane.scheduler_config = str(found.configuration)
    kubelets = None
    try:
        plane.start()
        if not plane.has_controllers:
            pytest.fail("this story needs kube-controller-manager and kube-scheduler in KUBEBUILDER_ASSETS")
        kubelets = Kubelets(plane, time_scale=10)
        found.open(plane)
        yield found
    finally:
        found.close()
        if kubelets is not None:
            kubelets.stop()
        plane.stop()


def test_a_real_scheduler_follows_the_extender(site):
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
