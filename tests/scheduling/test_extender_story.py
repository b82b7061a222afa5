"""The simulated scheduler asks our extender over TLS, by the configuration that the cluster's page shows."""

import json
import ssl
import urllib.error
import urllib.request

import pytest
from django.utils import timezone

from apps.executions.models import Execution, Step
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.placing import services
from apps.placing.models import ExtenderBeat, Verdict
from apps.placing.queries import placement_policy_of
from tests.plans.situations import draft, person
from tests.scheduling.extender_site import (
    FAST,
    Site,
    a_gang_starts_as_a_whole_or_not_at_all,
    pods_go_where_we_score_highest,
    topology_is_refused_and_granted,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


@pytest.fixture
def site(transactional_db, simulated_cluster, settings, tmp_path):
    found = Site(tmp_path, settings)
    found.open(simulated_cluster(scene="empty", time_scale=20, scheduler_config=found.configuration))
    yield found
    found.close()


def keep(site, node, display):
    """As the row of an execution that is to hand the node over."""
    plan = draft(site.cluster, person("ada", "planner"))
    version = plan.versions.get(number=plan.version_number)
    execution = Execution.objects.create(
        plan=plan, version=version, state=ExecutionState.RUNNING, started_by=person("omar", "operator")
    )
    params = {"node": node, "node_uid": "u", "keys": [display], "display": display}
    target = f"node {node}"
    Step.objects.create(
        execution=execution, position=1, kind=StepKind.HAND_OVER, target=target, params=params
    )
    return execution


def test_the_scheduler_follows_the_extender_and_every_verdict_is_kept(site, client):
    site.furnish(slow="l40s", fast_1="a100-sxm4-80gb", fast_2="a100-sxm4-80gb")
    fullest = topology_is_refused_and_granted(site)
    (empty,) = FAST - {fullest}
    pods_go_where_we_score_highest(site, fullest)
    a_gang_starts_as_a_whole_or_not_at_all(site, empty)
    hold_a_node_for_its_gang(site, empty)
    _verdicts_say_why(site, client, fullest)
    _nobody_else_is_answered(site)


def hold_a_node_for_its_gang(site, node):
    """The gang is gone and its nodes are free; one is kept for somebody else by an execution."""
    site.plane.ask("DELETE", "/apis/batch/v1/namespaces/work/jobs/gang", {"propagationPolicy": "Background"})
    site.until(lambda: not site.pods("gang"), "the gang is gone")
    execution = keep(site, node, "work/chosen")
    site.until(lambda: ExtenderBeat.objects.filter(holds=1).exists(), "the extender has read the hold")
    wish = {"nodeSelector": {"kubernetes.io/hostname": node}}
    site.add_pod("stranger", 8, **wish)
    site.until_refused("stranger", f"1 the node is kept for work/chosen by execution {execution.pk}")
    site.add_pod("chosen", 8, **wish)
    assert site.until_bound("chosen") == node
    Step.objects.update(state=StepState.VERIFIED)
    site.delete_pod("chosen")
    assert site.until_bound("stranger") == node


def _verdicts_say_why(site, client, fullest):
    site.until(
        lambda: Verdict.objects.filter(pod_key="work/small", verb="prioritize"), "the verdict is a row"
    )
    services.note_beat(cluster_id=site.cluster.pk, started_at=timezone.now())
    client.force_login(person("eve", "viewer", cluster=site.cluster))
    (told,) = client.get("/api/v1/verdicts/?pod=work/small&verb=prioritize").json()["results"]
    best = told["top"][0]
    assert (best["node"], best["score"], told["scoring"]) == (fullest, 10, "packing")
    assert sum(part["points"] for part in best["parts"]) == pytest.approx(best["points"], abs=0.01)
    pinned = client.get("/api/v1/verdicts/?pod=work/pinned&verb=filter").json()["results"][0]
    assert pinned["refused"] == [{"reason": "no 4-GPU group with the wanted bandwidth (NVLink)", "nodes": 1}]


def _nobody_else_is_answered(site):
    """Without the secret, and with one that was renewed."""
    trust = ssl.create_default_context(cafile=str(site.certificates.ca))

    def ask(address):
        body = json.dumps({"Pod": site.pod("small"), "NodeNames": ["fast-1"]}).encode()
        try:
            request = urllib.request.Request(f"{address}/filter", body, {"Content-Type": "application/json"})
            return urllib.request.urlopen(request, context=trust, timeout=5).status
        except urllib.error.HTTPError as error:
            return error.code

    assert ask(site.prefix) == 200
    bare = site.prefix.partition("/extender/")[0]
    assert (ask(bare), ask(f"{bare}/extender/site/guess")) == (404, 404)
    services.renew_address(actor=person("root", "admin", cluster=site.cluster), cluster=site.cluster)
    assert placement_policy_of(site.cluster).address_number == 2
    site.until(lambda: ask(site.prefix) == 404, "the old address is refused")
