"""A node that somebody else works on: an execution pauses, says why, and never fights."""

import pytest

from apps.clusters.pictures import summarise
from apps.clusters.services import record_snapshot
from apps.executions import services
from apps.executions.maintaining import nodes_of, tell_maintained
from apps.executions.states import ExecutionState, StepKind
from apps.kube.translate.nodes import read_node
from apps.planner.inventory import Node, Taint
from apps.planner.maintenance import why_maintained
from tests.executions import things
from tests.executions.test_freeze import visit
from tests.executions.test_stories import carry, carry_until, has_sent
from tests.plans.situations import node, picture

UPGRADE = "nvidia.com/gpu-driver-upgrade-state"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"labels": {UPGRADE: "drain-required"}}, "its GPU driver is being upgraded"),
        ({"labels": {UPGRADE: "upgrade-done"}}, ""),
        ({"taints": (Taint("karpenter.sh/disrupted", "", "NoSchedule"),)}, "Karpenter takes it away"),
        ({"taints": (Taint("ToBeDeletedByClusterAutoscaler", "1", "NoSchedule"),)}, "the cluster-autoscaler"),
        ({"taints": (Taint("nvidia.com/gpu", "", "NoSchedule"),)}, ""),
        ({"unschedulable": True}, ""),
        ({"reboot": "kured reboots it"}, "kured reboots it"),
    ],
)
def test_who_else_works_on_a_node_is_told_by_labels_taints_and_annotations(facts, words):
    found = why_maintained(Node("a", **facts))
    assert found.startswith(words) if words else found == ""


def test_kureds_annotation_is_read_and_the_summary_names_the_node():
    raw = things.node("a") | {}
    raw["metadata"]["annotations"] = {"weave.works/kured-reboot-in-progress": "2026-01-01T00:00:00Z"}
    seen = read_node(raw, taken_at=0.0).node
    assert "kured reboots it" in why_maintained(seen)
    busy = node("node-a", labels={UPGRADE: "cordon-required"})
    assert list(summarise(picture(nodes=[busy, node("node-b")], pods=[]))["maintained"]) == ["node-a"]


def test_only_nodes_that_open_steps_need_count():
    needed = nodes_of([things.step("evict_pod"), things.step("cordon_node", move=0)])
    assert needed == ["node-a", "node-b"]
    assert tell_maintained({"node-z": "busy"}, needed) == ""
    assert tell_maintained({"node-b": "busy"}, needed) == "node node-b is in somebody else's hands, busy"


@pytest.mark.django_db(transaction=True)
def test_a_running_execution_pauses_while_a_driver_upgrade_works_on_its_node_and_goes_on_after_it(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.CORDON_NODE, "cordon"))
    target = plan.moves[0].target
    path = f"/api/v1/nodes/{target}"

    def label(state):
        stage.simulated.ask("PATCH", path, {"metadata": {"labels": {UPGRADE: state}}})
        record_snapshot(cluster_id=stage.cluster.pk, snapshot=stage.picture())

    label("drain-required")
    visit(execution)
    assert (execution.state, execution.cause) == (ExecutionState.PAUSED, "node-maintained"), stage.told(
        execution
    )
    assert f"node {target} is in somebody else's hands, its GPU driver" in execution.state_reason
    assert stage.evicted() == []
    services.resume(execution_id=execution.pk, actor=stage.operator)
    visit(execution)
    assert execution.state == ExecutionState.PAUSED, "it is still under way"
    label(None)
    services.resume(execution_id=execution.pk, actor=stage.operator)
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
