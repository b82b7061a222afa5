"""The walk on a real Kubernetes control plane: real API server, controller manager and scheduler."""

import itertools
import os
import threading
import time

import pytest

from apps.executions import runner, services
from apps.executions.models import Step
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.kube.errors import Conflict
from apps.plans.states import PlanState
from tests.cluster_fixtures import wait_until
from tests.control_plane import WHY_SKIPPED, control_plane  # noqa: F401
from tests.executions.real_cluster import (
    BUDGETS,
    NAMESPACE,
    PATHS,
    STEERINGS,
    Kubelets,
    apply_manifests,
    clear,
    delete_manifests,
    exists,
    furnish,
    make_stranger,
    pods,
    strangers,
)
from tests.executions.stage import Stage
from tests.executions.test_stories import carry, carry_until, has_sent
from tests.executions.test_we_die import gated, watchdog_by

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.control_plane,
    pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason=WHY_SKIPPED),
    pytest.mark.timeout(300),
]


@pytest.fixture
def real_stage(webhook, transactional_db, control_plane, settings):  # noqa: F811
    if not control_plane.has_controllers:
        pytest.fail("this story needs kube-controller-manager and kube-scheduler in KUBEBUILDER_ASSETS")
    settings.STEERING_URL = webhook.environment["STEERING_URL"]
    settings.STEERING_CA_FILE = webhook.environment["STEERING_CA_FILE"]
    settings.EXECUTION_POLL_SECONDS = 0.1
    settings.EXECUTION_IDLE_SECONDS = 60
    kubelets = Kubelets(control_plane, time_scale=10)
    furnish(control_plane)
    yield Stage(control_plane)
    clear(control_plane)
    kubelets.stop()


def check_that_the_gang_has_its_nodes(stage, plane, plan, before):
    after = {pod["metadata"]["uid"]: pod for pod in pods(plane)}
    gang = [pod for pod in after.values() if (pod["metadata"].get("labels") or {}).get("app") == "big"]
    assert sorted(pod["spec"]["nodeName"] for pod in gang) == sorted(one.node for one in plan.hand_overs)
    assert {pod["status"]["phase"] for pod in gang} == {"Running"}
    assert {uid for uid in before if uid not in after} == {move.pod_uid for move in plan.moves}
    landed = Step.objects.filter(kind=StepKind.AWAIT_REPLACEMENT)
    places = {s.move: after[s.observed["seen"]["replacement"]]["spec"]["nodeName"] for s in landed}
    assert places == {move.order: move.target for move in plan.moves}
    assert stage.traces() == []


GROWN = {"metadata": {"name": "gpu-9", "annotations": {"sim.gpu.internal/hardware": "a100-sxm4-80gb:6"}}}


def is_room_kept(execution):
    """By paper or by a taint."""
    by_paper = has_sent(execution, StepKind.HOLD_TARGET, "create_hold")
    return by_paper or has_sent(execution, StepKind.HOLD_NODE, "taint_target")


def are_holds_standing(execution):
    return has_sent(execution, StepKind.STEER, "create_webhook")


@pytest.fixture
def standing_policy(control_plane, settings):  # noqa: F811
    """As the cluster's admin installs it; and no webhook could be reached."""
    settings.STEERING_URL = ""
    apply_manifests(control_plane, "admission/steering.yaml")
    yield
    delete_manifests(control_plane, "admission/steering.yaml")


def test_a_gang_gets_its_nodes_from_the_real_scheduler(real_stage, control_plane):  # noqa: F811
    before = {pod["metadata"]["uid"] for pod in pods(control_plane)}
    execution, plan = real_stage.start()
    assert len(plan.moves) == 4
    runner.advance(execution.pk, seconds=200)
    execution.refresh_from_db()
    assert execution.state == ExecutionState.SUCCEEDED, real_stage.told(execution)
    check_that_the_gang_has_its_nodes(real_stage, control_plane, plan, before)


def test_the_standing_policy_steers_and_strangers_of_the_same_owner_go_at_once_unpinned(
    real_stage,
    control_plane,  # noqa: F811
    standing_policy,
):
    """Two moves have one owner, which makes one pod more before its eviction, with our gate on."""
    before = {pod["metadata"]["uid"] for pod in pods(control_plane)}
    execution, plan = real_stage.start()
    steered = Step.objects.filter(execution=execution, kind=StepKind.STEER, state=StepState.VERIFIED)
    carry_until(execution, lambda: is_room_kept(execution))
    control_plane.ask("PATCH", f"{BUDGETS}/web", {"spec": {"maxUnavailable": 0}})
    carry_until(execution, steered.filter(params__pod__startswith=f"{NAMESPACE}/web-").exists)
    assert {step.params["form"] for step in steered} == {"parameter"}
    control_plane.ask("PATCH", f"{PATHS['Deployment']}/web", {"spec": {"replicas": 3}})
    wait_until(lambda: len(of_app(control_plane, "web")) == 3, seconds=30)
    strange = {pod["metadata"]["uid"] for pod in of_app(control_plane, "web")} - before
    freed = execution.events.filter(message__contains="freed, unpinned", state="intent")
    carry_until(execution, freed.exists)
    control_plane.ask("PATCH", f"{BUDGETS}/web", {"spec": {"maxUnavailable": 2}})
    carry(execution, seconds=100)
    assert execution.state == ExecutionState.SUCCEEDED, real_stage.told(execution)
    after = {pod["metadata"]["uid"]: pod for pod in of_app(control_plane, "web")}
    assert strange <= set(after)
    for uid in strange:
        assert "kubernetes.io/hostname" not in after[uid]["spec"]["nodeSelector"]
        assert not after[uid]["spec"].get("schedulingGates")
    pinned = [pod for uid, pod in after.items() if uid not in strange]
    web = [move.target for move in plan.moves if "/web-" in move.pod]
    assert sorted(pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] for pod in pinned) == sorted(web)
    assert real_stage.traces() == []
    assert not control_plane.ask("GET", STEERINGS)["items"]


def test_the_watchdog_frees_all_that_the_standing_policy_gates_while_we_are_gone(
    real_stage,
    control_plane,  # noqa: F811
    standing_policy,
    tmp_path,
):
    """Nobody of us looks at anything from right after an eviction until the owner has long ten pods."""
    execution, plan = real_stage.start()
    carry_until(execution, lambda: gated(real_stage))
    known = {pod["metadata"]["uid"] for pod in of_app(control_plane, "web")}
    begun = list(evictions_of(execution))
    assert begun
    control_plane.ask("POST", "/api/v1/nodes", GROWN)
    control_plane.ask("PATCH", f"{PATHS['Deployment']}/web", {"spec": {"replicas": 10}})
    wait_until(lambda: len(of_app(control_plane, "web")) >= 10, seconds=30, what="the owner has ten pods")
    new = {pod["metadata"]["uid"] for pod in of_app(control_plane, "web")} - known
    held = {pod["metadata"]["uid"] for pod in gated(real_stage)}
    assert len(new) >= 8
    assert new <= held, "the policy gates each of them"
    dog = watchdog_by(control_plane.credentials, tmp_path, after=3.0)
    wait_until(lambda: dog.look() is not None and not gated(real_stage), seconds=30, what="all are freed")
    after = {pod["metadata"]["uid"]: pod for pod in pods(control_plane)}
    assert held <= set(after)
    assert not [uid for uid in held if "kubernetes.io/hostname" in after[uid]["spec"]["nodeSelector"]]
    carry(execution, seconds=60)
    services.cancel(execution_id=execution.pk, actor=real_stage.operator, reason="they came back elsewhere")
    carry(execution, seconds=60)
    sent = list(evictions_of(execution))
    assert sent[: len(begun)] == begun
    assert len(set(sent)) == len(sent), "somebody was evicted twice"
    assert real_stage.traces() == []
    assert not control_plane.ask("GET", STEERINGS)["items"]


def evictions_of(execution):
    """The step of each eviction that was sent, in order."""
    return execution.events.filter(state="intent", message__startswith="evict").values_list(
        "step_id", flat=True
    )


def of_app(plane, app):
    return [pod for pod in pods(plane) if (pod["metadata"].get("labels") or {}).get("app") == app]


def test_a_closed_budget_and_a_writer_in_conflict_only_cost_time(real_stage, control_plane):  # noqa: F811
    before = {pod["metadata"]["uid"] for pod in pods(control_plane)}
    execution, plan = real_stage.start()
    carry_until(execution, lambda: Step.objects.filter(execution=execution).exists())
    stop, numbers = threading.Event(), itertools.count()

    def write_all_the_time():
        """As a node agent would that reports too often: every write makes what we read outdated."""
        while not stop.wait(0.005):
            for one in plan.hand_overs:
                note = {"metadata": {"annotations": {"example.com/beat": str(next(numbers))}}}
                control_plane.ask("PATCH", f"/api/v1/nodes/{one.node}", note)

    thread = threading.Thread(target=write_all_the_time)
    thread.start()
    in_conflict = execution.events.filter(state="failed try", message__contains="has been modified")
    try:
        carry_until(execution, in_conflict.exists)
    finally:
        stop.set()
        thread.join()
    carry_until(execution, lambda: is_room_kept(execution))
    control_plane.ask("PATCH", f"{BUDGETS}/web", {"spec": {"maxUnavailable": 0}})
    blocked = Step.objects.filter(execution=execution, kind=StepKind.EVICT_POD, state=StepState.BLOCKED)
    carry_until(execution, blocked.exists)
    assert "disruption budget" in blocked.first().reason
    control_plane.ask("PATCH", f"{BUDGETS}/web", {"spec": {"maxUnavailable": 1}})
    carry(execution, seconds=100)
    assert execution.state == ExecutionState.SUCCEEDED, real_stage.told(execution)
    check_that_the_gang_has_its_nodes(real_stage, control_plane, plan, before)


def test_strangers_of_the_same_rank_get_nothing_that_was_kept(real_stage, control_plane):  # noqa: F811
    """Ten a second, from the moment the holds stand: before, during and after the uncordon."""
    before = {pod["metadata"]["uid"] for pod in pods(control_plane)}
    execution, plan = real_stage.start()
    carry_until(execution, lambda: are_holds_standing(execution))
    stop, numbers, places = threading.Event(), itertools.count(), set()

    def keep_coming():
        while not stop.wait(0.1):
            make_stranger(control_plane, f"stranger-{next(numbers)}")

    def look_where_they_are():
        while not stop.wait(0.2):
            places.update(pod["spec"].get("nodeName", "") for pod in strangers(control_plane))

    threads = [threading.Thread(target=work) for work in (keep_coming, look_where_they_are)]
    for thread in threads:
        thread.start()
    try:
        carry(execution, seconds=150)
        time.sleep(2)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert execution.state == ExecutionState.SUCCEEDED, real_stage.told(execution)
    places.update(pod["spec"].get("nodeName", "") for pod in strangers(control_plane))
    assert next(numbers) > 50
    assert places - {""}, "no stranger ran at all, so nothing was proved"
    assert not places & {one.node for one in plan.hand_overs}
    check_that_the_gang_has_its_nodes(real_stage, control_plane, plan, before)


def make_urgent_class(plane):
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    if not exists(plane, f"{path}/urgent"):
        plane.ask("POST", path, {"metadata": {"name": "urgent"}, "value": 1000, "preemptionPolicy": "Never"})


def test_a_higher_rank_is_kept_out_by_the_taint_and_the_moved_pods_land(
    real_stage,
    control_plane,  # noqa: F811
):
    """All the room of each target is wanted by a pod of a higher rank from the moment it is kept."""
    before = {pod["metadata"]["uid"] for pod in pods(control_plane)}
    execution, plan = real_stage.start()
    carry_until(execution, lambda: is_room_kept(execution))
    kept = Step.objects.filter(execution=execution, kind=StepKind.HOLD_NODE)
    assert {step.params["node"] for step in kept} == {move.target for move in plan.moves}
    carry_until(execution, lambda: {step.state for step in kept.all()} == {StepState.VERIFIED})
    make_urgent_class(control_plane)
    for number, gpus in ((3, 4), (4, 6)):
        where = {"kubernetes.io/hostname": f"gpu-{number}"}
        make_stranger(
            control_plane, f"urgent-{number}", gpus=gpus, priorityClassName="urgent", nodeSelector=where
        )
    carry(execution, seconds=150)
    assert execution.state == ExecutionState.SUCCEEDED, real_stage.told(execution)
    assert not [pod for pod in strangers(control_plane) if pod["spec"].get("nodeName")]
    check_that_the_gang_has_its_nodes(real_stage, control_plane, plan, before)


def test_a_higher_rank_that_takes_the_room_and_a_pod_that_was_replaced(
    real_stage,
    control_plane,  # noqa: F811
    settings,
):
    """Both end in a state that says why, and nobody is evicted for a room that is not there. Whoever
    tolerates everything is kept out by no taint either."""
    settings.EXECUTION_STEP_SECONDS = 15
    before = {pod["metadata"]["uid"] for pod in pods(control_plane)}
    execution, plan = real_stage.start()
    carry_until(execution, lambda: are_holds_standing(execution))
    make_urgent_class(control_plane)
    for number, gpus in ((3, 4), (4, 6)):
        where = {"kubernetes.io/hostname": f"gpu-{number}"}
        spec = {"priorityClassName": "urgent", "nodeSelector": where}
        spec["tolerations"] = [{"operator": "Exists"}]
        make_stranger(control_plane, f"urgent-{number}", gpus=gpus, **spec)
    wait_until(lambda: all(pod["spec"].get("nodeName") for pod in strangers(control_plane)), seconds=30)
    carry(execution, seconds=100)
    assert execution.state == ExecutionState.NEEDS_HUMAN, real_stage.told(execution)
    assert "Not evicted: target gpu-" in execution.state_reason
    services.cancel(execution_id=execution.pk, actor=real_stage.operator, reason="no room any more")
    carry(execution, seconds=60)
    assert execution.state == ExecutionState.CANCELLED, real_stage.told(execution)
    assert execution.outcome["not_undone"] == []
    assert before <= {pod["metadata"]["uid"] for pod in pods(control_plane)}
    assert real_stage.traces() == []

    for pod in strangers(control_plane):
        control_plane.ask("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}")
    wait_until(lambda: not strangers(control_plane), seconds=30)
    tuner = next(move for move in plan.moves if move.pod.endswith("/tuner-0"))
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/tuner-0"
    control_plane.ask("DELETE", path, {"gracePeriodSeconds": 0})
    wait_until(lambda: names_another(control_plane, tuner), seconds=30, what="the owner's new pod")
    with pytest.raises(Conflict, match="UID"):
        real_stage.gateway.evict_pod(NAMESPACE, "tuner-0", uid=tuner.pod_uid)
    second = services.start_execution(actor=real_stage.operator, plan_id=execution.plan_id)
    carry(second, seconds=60)
    second.plan.refresh_from_db()
    assert (second.state, second.plan.state) == (ExecutionState.FAILED, PlanState.STALE)
    assert "Nothing was touched" in second.state_reason
    assert {pod["metadata"]["uid"] for pod in pods(control_plane)} >= before - {tuner.pod_uid}
    assert real_stage.traces() == []


def names_another(plane, move):
    return any(
        pod["metadata"]["name"] == "tuner-0" and pod["metadata"]["uid"] != move.pod_uid for pod in pods(plane)
    )
