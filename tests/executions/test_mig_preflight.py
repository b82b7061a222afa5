"""What is refused before a node is relaid, each with its reason. Pictures drawn by hand, no cluster."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from apps.executions.mig_preflight import examine_layouts
from apps.kube.errors import Forbidden
from apps.planner.inventory import Gpu, Holding, MigInstance
from apps.planner.plan import Goal, Move, NamedLayout, Plan, Reconfiguration
from tests.plans.situations import node, picture, pod

ENTRIES = """
version: v1
mig-configs:
  gpu5: [{devices: [5], mig-enabled: true, mig-devices: {"1g.10gb": 7}},
         {devices: [0, 1, 2, 3, 4, 6, 7], mig-enabled: false}]
"""
LABELS = {"nvidia.com/mig.capable": "true", "nvidia.com/mig.config": "all-disabled"}
LABELS |= {"nvidia.com/mig.config.state": "success", "kubernetes.io/hostname": "node-a"}
MANAGER = replace(
    pod("manager-x", "node-a", 0), namespace="gpu-operator", workload="uid-ds", owner_kind="DaemonSet"
)


class Cluster:
    """The two objects that are read, as a gateway gives them."""

    def __init__(self, *, text=ENTRIES, env=None, is_absent=False, is_forbidden=False, by_sub_path=False):
        self.text, self.env, self.is_forbidden, self.by_sub_path = text, env or {}, is_forbidden, by_sub_path
        self.daemons = [] if is_absent else [self._daemon()]

    def _daemon(self):
        env = [{"name": key, "value": value} for key, value in self.env.items()]
        mount = {"name": "layouts", "mountPath": "/mig-parted-config"}
        if self.by_sub_path:
            mount = {**mount, "mountPath": "/mig-parted-config/config.yaml", "subPath": "config.yaml"}
        container = {"name": "main", "env": env, "volumeMounts": [mount]}
        volume = {"name": "layouts", "configMap": {"name": "my-layouts"}}
        spec = {"template": {"spec": {"containers": [container], "volumes": [volume]}}}
        return {"metadata": {"name": "nvidia-mig-manager", "uid": "uid-ds"}, "spec": spec}

    def list_objects(self, kind, *, namespace):
        assert (kind.plural, namespace) == ("daemonsets", "gpu-operator")
        return SimpleNamespace(objects=self.daemons)

    def get_object(self, kind, name, *, namespace):
        assert (kind.plural, name, namespace) == ("configmaps", "my-layouts", "gpu-operator")
        if self.is_forbidden:
            raise Forbidden("forbidden")
        return {"metadata": {"uid": "u", "resourceVersion": "1"}, "data": {"config.yaml": self.text}}

    def patch_object(self, kind, name, body, *, namespace, dry_run):
        assert dry_run
        return body


def cut(index=5, after=None, **facts):
    known = {"before": {}, "after": after or {"1g.10gb": 7}, "reason": "", "model": "A100-80GB"}
    return Reconfiguration(1, "node-a", f"GPU-node-a-{index}", index, **{**known, **facts})


def plan_of(*cuts, moves=()):
    return Plan(Goal.MIG, reconfigurations=cuts or (cut(),), moves=moves)


def seen(*pods, labels=None, **facts):
    known = {"mig_strategy": "mixed", "labels": {**LABELS, **(labels or {})}}
    return picture(nodes=[node("node-a", **{**known, **facts})], pods=[MANAGER, *pods])


def refusals(plan=None, now=None, **cluster):
    (found,) = examine_layouts(plan or plan_of(), now or seen(), Cluster(**cluster))
    assert bool(found.params) != bool(found.refusals)
    return " ".join(found.refusals)


def test_an_idle_node_with_a_named_layout_is_taken_and_the_way_back_is_said():
    (found,) = examine_layouts(plan_of(), seen(), Cluster())
    assert found.refusals == ()
    assert found.note == "nvidia.com/mig.config becomes gpu5; a roll back restores all-disabled"
    assert found.params["offers"] == {"nvidia.com/mig-1g.10gb": 7, "nvidia.com/gpu": 7}
    assert (found.params["config"], found.params["previous"], found.params["gpus"]) == (
        "gpu5",
        "all-disabled",
        [5],
    )
    assert found.params["before_moves"]


def test_without_an_earlier_label_it_is_said_that_a_person_decides():
    now = seen()
    bare = {key: value for key, value in LABELS.items() if key != "nvidia.com/mig.config"}
    now = replace(now, nodes={"node-a": replace(now.nodes["node-a"], labels=bare)})
    (found,) = examine_layouts(plan_of(), now, Cluster())
    assert "a person decides" in found.note
    assert found.params["previous"] is None


@pytest.mark.parametrize(
    ("now", "cluster", "words"),
    [
        (seen(mig_strategy="single"), {}, "MIG-INVALID"),
        (seen(mig_strategy="none"), {}, "mig.strategy none"),
        (seen(mig_strategy=""), {}, "mig.strategy not told"),
        (seen(labels={"nvidia.com/mig.capable": "false"}), {}, "is not MIG capable"),
        (seen(labels={"nvidia.com/mig.config.state": "pending"}), {}, "under way or stuck"),
        (seen(labels={"nvidia.com/mig.config.state": "rebooting"}), {}, "under way or stuck"),
        (seen(labels={"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}), {}, "paused: nvidia.com"),
        (seen(labels={"nvidia.com/mig.config": "gpu5"}), {}, "acts on a change only"),
        (seen(), {"is_absent": True}, "mig-manager is absent"),
        (picture(nodes=list(seen().nodes.values()), pods=[pod("a", "", 1)]), {}, "absent on node node-a"),
        (seen(), {"is_forbidden": True}, "apply deploy/rbac/mig.yaml"),
        (seen(), {"text": "version: v2\nmig-configs: {}"}, "cannot be read"),
        (seen(), {"text": "version: v1\nmig-configs: {}"}, "Add this line under mig-configs: gpu5-7x1g"),
        (seen(pod("web", "node-a", 0)), {"env": {"WITH_REBOOT": "true"}}, "WITH_REBOOT"),
        (
            seen(pod("train", "node-a", 1), holdings=(Holding("uid-train", "GPU-node-a-2"),)),
            {"env": {"WITH_SHUTDOWN_HOST_GPU_CLIENTS": "true"}},
            "WITH_SHUTDOWN_HOST_GPU_CLIENTS, so the whole node node-a goes down, and ml/train",
        ),
        (seen(pod("train", "node-a", 1)), {}, "ml/train on node node-a would not be moved"),
    ],
)  # fmt: skip
def test_what_cannot_be_relaid_is_refused_with_its_reason(now, cluster, words):
    assert words in refusals(now=now, **cluster)


def test_a_strategy_of_single_with_even_layouts_is_refused_too_but_not_as_invalid():
    cuts = [cut(index) for index in range(8)]
    told = refusals(plan_of(*cuts), seen(mig_strategy="single"))
    assert "only mixed" in told
    assert "MIG-INVALID" not in told


def test_a_pod_on_another_gpu_is_no_matter_where_that_is_proven():
    held = (Holding("uid-train", "GPU-node-a-2"),)
    now = seen(pod("train", "node-a", 1), holdings=held)
    (found,) = examine_layouts(plan_of(), now, Cluster())
    assert found.refusals == ()
    unproven = refusals(now=seen(pod("train", "node-a", 1)))
    assert "nothing proves which GPU that is" in unproven
    assert "ml/train" in refusals(
        now=seen(pod("train", "node-a", 1), holdings=(Holding("uid-train", "GPU-node-a-5"),))
    )


def test_a_pod_that_the_plan_moves_is_no_obstacle():
    move = Move(1, 1, "uid-train", "ml/train", "node-a", "node-b", 1, 1.0, "")
    plan = plan_of(cut(after_moves=True, whole_node=True), moves=(move,))
    (found,) = examine_layouts(plan, seen(pod("train", "node-a", 1)), Cluster())
    assert found.refusals == ()
    assert found.params["is_whole_node"]
    assert not found.params["before_moves"]
    assert found.params["known"] == ["uid-train"]


def test_several_gpus_of_a_node_are_one_change():
    text = ENTRIES.replace("devices: [5]", "devices: [5, 6]").replace("4, 6, 7", "4, 7")
    found = examine_layouts(plan_of(cut(5), cut(6)), seen(), Cluster(text=text))
    assert [one.params["gpus"] for one in found] == [[5, 6]]


def test_gpus_that_a_switch_of_mode_would_clear_count_as_touched():
    """The node has a GPU in MIG mode with somebody on it, and the only layout that fits names it too."""
    gpus = tuple(Gpu(index, f"GPU-node-a-{index}") for index in range(8))
    used = replace(gpus[0], instances=(MigInstance("7g.80gb", 0, "MIG-0"),))
    room = {"nvidia.com/gpu": 7, "nvidia.com/mig-7g.80gb": 1}
    guest = replace(pod("train", "node-a", 0), requests={"nvidia.com/mig-7g.80gb": 1})
    now = seen(guest, gpus=(used, *gpus[1:]), allocatable=room, holdings=(Holding("uid-train", "MIG-0"),))
    text = ENTRIES.replace("[0, 1, 2", "[1, 2").replace(
        "gpu5: [", 'gpu5: [{devices: [0], mig-enabled: true, mig-devices: {"7g.80gb": 1}}, '
    )
    assert "ml/train on node node-a would not be moved" in refusals(now=now, text=text)
    silent = (
        'version: v1\nmig-configs:\n  only5: [{devices: [5], mig-enabled: true, mig-devices: {"1g.10gb": 7}}]'
    )
    assert refusals(now=now, text=silent) == ""


LAYOUT = NamedLayout(
    "gpu-defrag-0123456789",
    'gpu-defrag-0123456789: [{devices: [5], mig-enabled: true, mig-devices: {"1g.10gb": 7}}, '
    "{devices: [0, 1, 2, 3, 4, 6, 7], mig-enabled: false}]",
    ("node-a",),
)
OTHER = f"version: v1\nmig-configs:\n  {LAYOUT.name}: [{{devices: all, mig-enabled: false}}]\n"


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ({}, ""),
        (
            {"by_sub_path": True},
            "by a subPath, so its pods never see what is added. To go on, apply deploy/rbac",
        ),
        (
            {"text": OTHER},
            f"The name {LAYOUT.name} stands for something else in ConfigMap gpu-operator/my-layouts",
        ),
        ({"text": f"version: v1\nmig-configs:\n  {LAYOUT.line}\n", "by_sub_path": True}, ""),
    ],
)
def test_a_name_that_nobody_would_see_or_that_is_taken_is_refused(cluster, words):
    """Where the name stands for the same layout already nothing is to be added, so nothing is refused."""
    plan = replace(plan_of(), layouts=(LAYOUT,))
    text = "version: v1\nmig-configs:\n  all-disabled: [{devices: all, mig-enabled: false}]\n"
    told = refusals(plan, **{"text": text, **cluster})
    assert words in told
    assert bool(words) == bool(told)
