"""The preflight of a cluster: each line says what was found, what it means and what to do."""

from dataclasses import replace

import pytest

from apps.clusters.mig_manager import MigManager
from apps.executions.cluster_preflight.examining import Sight, judge_cluster
from apps.executions.cluster_preflight.lines import Standing, line_from_dict, line_to_dict
from apps.executions.cluster_preflight.rights import (
    PURPOSES,
    find_missing,
    judge_rights,
    may_evict,
    named_rights,
)
from apps.executions.cluster_preflight.steering import NONE, POLICY, WEBHOOK, Way
from apps.executions.other_schedulers.settings import (
    Kai,
    Kueue,
    OtherSchedulers,
    Program,
    Volcano,
    VolcanoJob,
    read_program,
)
from apps.planner.inventory import Node, Pod
from apps.planner.snapshot import Snapshot

NOBODY = OtherSchedulers(Kai(), Kueue(), Volcano())
GPU = {"nvidia.com/gpu": 1}


def picture(*nodes, pods=(), problems=()):
    return Snapshot(
        "c", 1.0,
        nodes={node.name: node for node in nodes or (Node("a", pool="train"),)},
        pods={pod.uid: pod for pod in pods}, problems=tuple(problems),
    )  # fmt: skip


def sight(**facts):
    known = {
        "version": "v1.36.2", "picture": picture(), "programs": (), "unread": (), "settings": NOBODY,
        "steering": Way(POLICY), "manager": None, "rights": tuple(named_rights()), "missing": (),
    }  # fmt: skip
    return Sight(**(known | facts))


def lines(subject, **facts):
    return [line for line in judge_cluster(sight(**facts)) if line.subject == subject]


def told(subject, **facts):
    return " ".join(f"{line.found} {line.means} {line.action}" for line in lines(subject, **facts))


@pytest.mark.parametrize(
    ("version", "standing", "words"),
    [
        ("v1.36.2", Standing.OK, "was proved on 1.36"),
        ("v1.37.0-rc.1", Standing.WARNING, "Newer than what was proved"),
        ("v1.35.0", Standing.WARNING, "best effort"),
        ("v1.31.9-gke.1", Standing.WARNING, "a hold may be lost"),
        ("v1.29.3", Standing.PLANNED_ONLY, "webhook match conditions (1.30)"),
        ("v1.26.0", Standing.PLANNED_ONLY, "scheduling gates that pin a pod (1.27)"),
        ("", Standing.UNKNOWN, "calls itself nothing"),
    ],
)
def test_only_what_was_proved_is_claimed_for_a_version(version, standing, words):
    (line,) = lines("Kubernetes version", version=version)
    assert line.standing == standing
    assert words in f"{line.found} {line.means}"


def test_every_right_that_the_files_name_is_asked_for():
    rights = named_rights()
    asked = []

    def may(verb, kind, *, namespace="", subresource="", name=""):
        asked.append((verb, kind.group, kind.plural, subresource, namespace, name))
        return (verb, subresource) != ("create", "eviction")

    missing = find_missing(rights, may)
    assert {right.file for right in rights} >= {"reader.yaml", "executor.yaml", "mig.yaml", "trust.yaml"}
    assert len(asked) == len(rights)
    assert ("get", "", "configmaps", "", "gpu-operator", "default-mig-parted-config") in asked
    assert [right.words for right in missing] == ["create pods/eviction"]
    assert not may_evict(missing)
    assert may_evict([])


def test_missing_rights_say_what_is_planned_only_and_which_file_grants_them():
    rights = tuple(named_rights())
    executor = tuple(right for right in rights if right.file == "executor.yaml")
    layouts = tuple(right for right in rights if right.file == "mig.yaml")
    found = {line.standing for line in lines("Rights", missing=(*executor, *layouts))}
    assert found == {Standing.OK, Standing.PLANNED_ONLY, Standing.TOLD}
    text = told("Rights", missing=(*executor, *layouts))
    assert (
        "Everything is planned only: no plan can be started. kubectl apply -f deploy/rbac/executor.yaml"
        in text
    )
    assert "MIG layouts are planned only." in text
    assert "not part of this installation" in told("Rights", rights=())


def test_schedulers_are_told_for_each_pool():
    nodes = Node("a", pool="train"), Node("b", pool="serve")
    pods = [
        Pod("1", "ml", "x", node_name="a", phase="Running", scheduler="kai-scheduler", requests=GPU),
        Pod("2", "ml", "y", node_name="a", phase="Running", requests=GPU),
        Pod("3", "ml", "z", node_name="b", phase="Running", requests=GPU),
        Pod("4", "ml", "cpu", node_name="b", phase="Running", scheduler="other"),
    ]
    serve, train = lines("Schedulers", picture=picture(*nodes, pods=pods))
    assert (serve.standing, train.standing) == (Standing.OK, Standing.PLANNED_ONLY)
    assert "1 by kai-scheduler" in train.found
    assert "Planned only: 1 of KAI. 1 are placed by kube-scheduler." in train.means


def test_settings_of_other_schedulers_are_told():
    assert "No KAI, Kueue, Volcano or Koordinator" in told("Other schedulers")
    job = VolcanoJob("ml", "mpi", (("", "RestartJob"),), 8)
    settings = OtherSchedulers(
        Kai(True, 45.0, "SchedulingShard default", True, ("schedulingshards cannot be read",)),
        Kueue(True, 120.0), Volcano(True, {("ml", "mpi"): job}), koordinator=True,
    )  # fmt: skip
    text = told("Other schedulers", settings=settings)
    for words in (
        "evicts the rest of a gang 45 s after it fell below its minimum (SchedulingShard default)",
        "KAI's own consolidation is on.",
        "schedulingshards cannot be read",
        "waitForPodsReady.recoveryTimeout 120 s",
        "1 of 1 jobs answer an evicted pod by a restart or an end: ml/mpi",
        "Koordinator is there.",
    ):
        assert words in text
    quiet = replace(settings, kai=Kai(True, -1.0, "the shard", False), kueue=Kueue(True))
    text = told("Other schedulers", settings=quiet)
    assert "leaves gangs below their minimum alone" in text
    assert "consolidation is on" not in text
    assert "no waitForPodsReady.recoveryTimeout is set" in text


def test_other_movers_are_found_by_their_programs_and_labels():
    assert "No program that moves pods" in told("Other movers")
    images = {"descheduler": "registry.k8s.io/descheduler/descheduler:v0.32", "as": "x/cluster-autoscaler:1"}
    programs = [Program("Deployment", "kube-system", name, (image,)) for name, image in images.items()]
    programs.append(Program("DaemonSet", "kube-system", "kured"))
    programs.append(Program("Deployment", "karpenter", "web", ("karpenter.example/site:1",)))
    busy = Node("a", labels={"nvidia.com/gpu-driver-upgrade-state": "drain-required"})
    done = Node("b", labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"})
    text = told("Other movers", programs=tuple(programs), picture=picture(busy, done))
    for words in (
        "The descheduler is there",
        "cluster-autoscaler is there",
        "kured is there",
        "under way on a.",
    ):
        assert words in text
    assert "Karpenter" not in text, "the host of an image is not its program"
    assert "The deployments of the cluster cannot be read." in told("Other movers", unread=("deployments",))
    hidden = told("Other movers", unread=("cronjobs",))
    assert "The cronjobs of the cluster cannot be read." in hidden
    assert hidden.endswith("kubectl apply -f deploy/rbac/trust.yaml")


def test_a_descheduler_that_runs_at_times_is_found():
    template = {"template": {"spec": {"containers": [{"image": "registry/descheduler:v0.34"}]}}}
    about = {"namespace": "kube-system", "name": "tidy"}
    found = read_program({"metadata": about, "spec": {"jobTemplate": {"spec": template}}}, "CronJob")
    assert "The descheduler is there: CronJob kube-system/tidy." in told("Other movers", programs=(found,))
    rests = {"suspend": True, "jobTemplate": {"spec": template}}
    found = read_program({"metadata": about, "spec": rests}, "CronJob")
    assert "is there: suspended CronJob kube-system/tidy." in told("Other movers", programs=(found,))


def test_what_else_execution_stands_on_is_told():
    assert "Replacements cannot be gated" in told("Steering", steering=Way(NONE, "No address."))
    assert "must reach it" in told("Steering", steering=Way(WEBHOOK, "Not installed."))
    hidden = picture(problems=["poddisruptionbudgets cannot be read: forbidden"])
    (line,) = lines("Disruption budgets", picture=hidden)
    assert (line.standing, line.means) == (Standing.PLANNED_ONLY, "No pod counts as movable.")
    capable = {"nvidia.com/mig.capable": "true"}
    mixed, single = (Node(n, labels=capable, mig_strategy=n) for n in ("mixed", "single"))
    text = told("MIG", picture=picture(mixed, single), manager=MigManager(reboots=True))
    assert "1 node mixed, 1 node single" in text
    assert "mig-manager runs with WITH_REBOOT." in text
    assert "mig-manager is absent" in told(
        "MIG", picture=picture(mixed), manager=MigManager("mig-manager is absent.")
    )
    assert "cannot be read: refused" in told("Metrics", measured=(True, "refused"))


def test_a_line_is_stored_and_read_again():
    for line in judge_cluster(sight(picture=None)):
        assert line_from_dict(line_to_dict(line)) == line


def test_a_missing_right_to_bind_stops_no_plan_and_each_file_says_what_it_is_for():
    rights = tuple(named_rights())
    assert {right.file for right in rights} == set(PURPOSES)
    binding = tuple(right for right in rights if right.file == "extender.yaml")
    (line,) = [one for one in judge_rights(rights, binding) if "extender.yaml" in one.action]
    assert (line.standing, "cannot bind" in line.means) == (Standing.TOLD, True)
