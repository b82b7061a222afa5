"""Whether a scheduler obeys the extender is proved with pods of ours, over HTTP: one that waits, and one that
goes on alone."""

import json
from datetime import timedelta

import pytest
import yaml
from django.utils import timezone

from apps.audit.models import AuditEntry
from apps.audit.queries import verify_chain
from apps.clusters.services import record_snapshot
from apps.executions.models import KeptRoom, SchedulerProof, Step
from apps.executions.pictures import take_picture
from apps.executions.proving import working
from apps.executions.proving.asking import order_proof, proof_standing
from apps.executions.states import ExecutionState, Obedience, StepKind, StepState
from apps.placing.models import ExtenderBeat, PlacementPolicy
from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.owners import Owner, make_template
from tests.cluster_fixtures import simulated_cluster  # noqa: F401
from tests.executions.conftest import webhook  # noqa: F401
from tests.executions.stage import Stage
from tests.executions.test_stories import carry, carry_until
from tests.plans.situations import person
from tests.scheduling.extender_site import Site

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


class SiteStage(Stage):
    """The people and plans of a stage, on the cluster of a site."""

    def __init__(self, site):
        self.simulated, self.cluster = site.plane, site.cluster
        self.gateway = site.plane.gateway()
        self.author = person("ada", "planner", cluster=self.cluster)
        self.approver = person("ben", "approver", cluster=self.cluster)
        self.operator = person("omar", "operator", cluster=self.cluster)


def one_pod_and_one_place():
    """node-a: a pod of one GPU. node-b: one GPU left, the only room there is."""
    scene = SceneBuilder(seed=5)
    for name in ("node-a", "node-b"):
        scene.add_node(name, "a100-sxm4-80gb", 8, pool="train", rack="r1", zone="east-1a")
    for name, gpus, node, first in (("web", 1, "node-a", 0), ("more", 7, "node-b", 0)):
        owner = scene.add_owner(Owner("Deployment", "work", name, make_template(name, gpus=gpus)))
        scene.put(owner, node, tuple(range(first, first + gpus)))
    return {"apiVersion": "v1", "kind": "List", "items": scene.build()}


@pytest.fixture
def open_site(transactional_db, simulated_cluster, settings, tmp_path):  # noqa: F811
    settings.EXECUTION_POLL_SECONDS = 0.05
    dump = tmp_path / "scene.json"
    dump.write_text(json.dumps(one_pod_and_one_place()))
    sites = []

    def open_one(**facts):
        site = Site(tmp_path, settings)
        if facts:
            told = yaml.safe_load(site.configuration.read_text())
            told["extenders"][0] |= facts
            site.configuration.write_text(yaml.safe_dump(told))
        site.open(simulated_cluster(dump=dump, time_scale=20, scheduler_config=site.configuration))
        sites.append(site)
        see(site)
        return site

    yield open_one
    for site in sites:
        site.close()


@pytest.fixture
def stage_of(webhook, settings):  # noqa: F811
    settings.STEERING_URL = webhook.environment["STEERING_URL"]
    settings.STEERING_CA_FILE = webhook.environment["STEERING_CA_FILE"]
    return SiteStage


def see(site):
    picture = take_picture(
        lambda kind: site.plane.gateway().list_objects(kind).objects, cluster="site", taken_at=1.0
    )
    record_snapshot(cluster_id=site.cluster.pk, snapshot=picture)


def prove(site):
    row = order_proof(actor=person("root", "admin", cluster=site.cluster), cluster=site.cluster)
    assert working.work_on_proof(row.pk)
    row.refresh_from_db()
    return row


def probes_of(site):
    found = site.plane.ask("GET", "/_sim/requests")["requests"]
    return [
        one
        for one in found
        if "/namespaces/gpu-defrag/pods" in one["path"] and one["method"] in ("POST", "DELETE")
    ]


def paper_holds(stage):
    return [one for one in stage.requests("POST", "/gpu-defrag/pods") if '"name": "hold-' in one["body"]]


def is_kept(execution):
    steps = Step.objects.filter(execution=execution, kind=StepKind.HOLD_TARGET)
    return steps.exists() and all(step.state == StepState.VERIFIED for step in steps)


def test_a_scheduler_that_waits_is_proved_to_and_a_pod_is_moved_without_a_paper_hold(open_site, stage_of):
    site = open_site()
    row = prove(site)
    assert row.result == Obedience.OBEYS, row.words
    assert row.holder == site.get(LEASE)["spec"]["holderIdentity"]
    assert proof_standing(site.cluster).is_proved
    made = [json.loads(one["body"]) for one in probes_of(site) if one["method"] == "POST"]
    assert len(made) == 2 * len(row.resources)
    entries = AuditEntry.objects.filter(action__startswith="scheduler.proof")
    told = entries.values_list("action", flat=True)
    assert {"scheduler.proof_asked", "scheduler.proof_probes", "scheduler.proof_ended"} == set(told)
    _move_beside_a_higher_rank(site, stage_of(site))
    assert verify_chain().is_intact


def _move_beside_a_higher_rank(site, stage):
    """It wants the very room, and no paper hold would keep it out."""
    PlacementPolicy.objects.update(keeps_rooms=True)
    execution, plan = stage.start("free-nodes")
    carry_until(execution, lambda: is_kept(execution))
    rank = {"metadata": {"name": "urgent"}, "value": 1000, "preemptionPolicy": "Never"}
    site.plane.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", rank)
    site.add_pod("contender", 1, priorityClassName="urgent")
    (move,) = plan.moves
    site.until_refused("contender", f"1 the room is kept for {move.pod} by execution {execution.pk}")
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    landed = Step.objects.get(execution=execution, kind=StepKind.AWAIT_REPLACEMENT)
    assert landed.observed["seen"]["landed_on"] == "node-b"
    assert paper_holds(stage) == []
    assert KeptRoom.objects.get().closed_at
    assert stage.traces() == []
    assert site.until_bound("contender") == "node-a"


def test_as_soon_as_the_extender_is_silent_the_hold_goes_on_paper_before_anything_is_evicted(
    open_site, stage_of
):
    site = open_site()
    facts = {"holder": site.until(lambda: site.get(LEASE), "a leader")["spec"]["holderIdentity"]}
    facts |= {"resources": ["nvidia.com/gpu"], "address_number": 1, "result": Obedience.OBEYS}
    now = timezone.now()
    SchedulerProof.objects.create(cluster=site.cluster, asked_at=now, ended_at=now, token="t", **facts)
    PlacementPolicy.objects.update(keeps_rooms=True)
    stage = stage_of(site)
    site.until(lambda: ExtenderBeat.objects.exists(), "the extender says that it runs")
    execution, plan = stage.start("free-nodes")
    carry_until(execution, lambda: is_kept(execution))
    assert paper_holds(stage) == []
    site.silence()
    ExtenderBeat.objects.update(beat_at=now - timedelta(minutes=1))
    carry_until(execution, lambda: stage.evicted())
    (made,) = paper_holds(stage)
    calls = stage.requests()
    (evicted,) = [one for one in calls if one["path"].endswith("/eviction") and "dryRun" not in one["query"]]
    assert calls.index(made) < calls.index(evicted)
    assert KeptRoom.objects.get().closed_at
    site.answer_again()
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert stage.evicted() == [move.pod_uid for move in plan.moves]
    assert stage.traces() == []


def test_one_that_goes_on_alone_is_told_and_its_pod_is_deleted_at_once(open_site):
    site = open_site(ignorable=True)
    row = prove(site)
    assert row.result == Obedience.IGNORES, row.words
    assert "holds stay on paper" in row.words
    assert not proof_standing(site.cluster).is_proved
    site.until(
        lambda: not site.plane.ask("GET", "/api/v1/namespaces/gpu-defrag/pods")["items"], "no pod is left"
    )
    assert SchedulerProof.objects.get().ended_at
