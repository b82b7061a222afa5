"""What KAI, Volcano and Kueue would do to a moved pod: read from their settings, told where it is refused."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from apps.executions.other_schedulers.durations import read_duration
from apps.executions.other_schedulers.refusing import Situation, refuse, refuse_others
from apps.executions.other_schedulers.settings import (
    SHARDS,
    Kai,
    Kueue,
    OtherSchedulers,
    Program,
    Volcano,
    VolcanoJob,
    read_kueue_config,
    read_settings,
    read_volcano_job,
)
from apps.executions.other_schedulers.starting import Start, read_seen, start_of
from apps.kube.errors import Forbidden, NotFound
from apps.kube.gateway import CONFIG_MAPS, ObjectList
from apps.planner.inventory import Gang, Pod, Workload
from apps.planner.snapshot import Snapshot
from apps.planner.systems import System, systems_of

NOW = 1_000_000.0
NOBODY = OtherSchedulers(Kai(), Kueue(), Volcano())


def gang_of(count=4, *, least=4, scheduler="kai-scheduler", api="scheduling.run.ai/v2alpha2", **facts):
    pods = {
        f"u{n}": Pod(
            f"u{n}", "ml", f"train-{n}", node_name="a", phase="Running", scheduler=scheduler, gang="ml/train",
            requests={"nvidia.com/gpu": 2}, started_at=NOW - 3600, **facts,
        )
        for n in range(count)
    }  # fmt: skip
    return Snapshot("c", NOW, pods=pods, gangs={"ml/train": Gang("ml/train", least, api_version=api)})


def told(picture, leaving, settings=NOBODY, start=None, graces=None):
    starts = {uid: Start(180.0, "image pull") if start is None else start for uid in picture.pods}
    situation = Situation(picture, frozenset(leaving), settings, graces or {}, starts)
    return refuse(picture.pods[next(iter(leaving))], situation)


def test_kai_evicts_the_rest_of_a_gang_while_the_image_is_pulled():
    found = told(gang_of(), ["u0"])
    assert "needs 4 members and would have 3" in found
    assert "60 s < 180 s image pull: all 4 would die." in found
    assert found.endswith("no hold of ours is proved under KAI, so nothing is evicted.")


@pytest.mark.parametrize(
    ("grace", "words"),
    [
        (300.0, "300 s >= 180 s image pull, so they would live"),
        (-1.0, "KAI leaves a gang below its minimum alone (its PodGroup)"),
        (0.0, "0 s < 180 s image pull: all 4 would die"),
    ],
)
def test_the_gangs_own_grace_goes_before_the_schedulers(grace, words):
    found = told(gang_of(), ["u0"], graces={"ml/train": grace})
    assert words in found
    assert "Planned only" in found


def test_a_start_that_nobody_knows_is_not_taken_for_a_quick_one():
    assert "is not known: all 4 may die" in told(gang_of(), ["u0"], start=Start())


def test_a_gang_above_its_minimum_is_still_planned_only():
    found = told(gang_of(5), ["u0"])
    assert "die" not in found
    assert "Planned only" in found


def test_a_whole_gang_has_a_price_and_still_no_hold():
    found = told(gang_of(), ["u0", "u1", "u2", "u3"])
    assert "moves as a whole. Its price is 4 restarts and about 8.0 GPU-hours" in found
    assert "no hold of ours is proved under KAI" in found


def test_volcano_restarts_the_whole_job_where_its_policy_says_so():
    labels = {"volcano.sh/job-name": "mpi", "volcano.sh/task-spec": "worker"}
    picture = gang_of(scheduler="volcano", api="scheduling.volcano.sh/v1beta1", labels=labels)
    spec = {
        "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
        "tasks": [
            {"name": "master", "replicas": 1},
            {
                "name": "worker",
                "replicas": 3,
                "policies": [{"events": ["PodEvicted"], "action": "RestartJob"}],
            },
        ],
    }
    job = read_volcano_job({"metadata": {"namespace": "ml", "name": "mpi"}, "spec": spec})
    assert job == VolcanoJob("ml", "mpi", (("worker", "RestartJob"),), 4)
    settings = replace(NOBODY, volcano=Volcano(True, {("ml", "mpi"): job}))
    assert "answers PodEvicted with RestartJob: all 4 of its pods would restart" in told(
        picture, ["u0"], settings
    )
    unread = replace(NOBODY, volcano=Volcano(True, None, ("no right",)))
    assert "is not known: no right" in told(picture, ["u0"], unread)


def test_kueue_requeues_a_workload_that_is_not_ready_in_time():
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    picture = gang_of(scheduler="default-scheduler", api="", labels=labels)
    settings = replace(
        NOBODY, kueue=read_kueue_config("waitForPodsReady:\n  enable: true\n  recoveryTimeout: 1m\n")
    )
    found = told(picture, ["u0"], settings)
    assert "60 s < 180 s image pull: all of it would be requeued" in found
    assert "proved under Kueue" in found
    topology = replace(picture.pods["u0"], protections=("Kueue's topology-aware scheduling placed it: …",))
    found = told(picture.with_pods([topology]), ["u0"], settings)
    assert "moves only through its Workload" in found


@pytest.mark.parametrize(
    "text", ["waitForPodsReady:\n  enable: false\n  recoveryTimeout: 1m\n", "other: 1\n"]
)
def test_kueue_without_a_recovery_timeout_requeues_nothing(text):
    assert read_kueue_config(text) == Kueue(True, None)


def test_a_configuration_that_cannot_be_read_is_told():
    assert "cannot be read" in read_kueue_config("a: [").unread[0]


def test_systems_are_told_by_scheduler_labels_gates_groups_and_owners():
    plain = Snapshot("c", NOW, pods={"u": Pod("u", "ml", "x")})
    assert systems_of(plain, plain.pods["u"]) == ()
    assert systems_of(plain, Pod("u", "ml", "x", scheduler="mine")) == (System.OTHER,)
    assert systems_of(plain, Pod("u", "ml", "x", gates=("kueue.x-k8s.io/admission",))) == (System.KUEUE,)
    assert systems_of(plain, Pod("u", "ml", "x", labels={"kai.scheduler/queue": "q"})) == (System.KAI,)
    owned = Snapshot(
        "c", NOW,
        workloads={
            "rs": Workload("rs", "ReplicaSet", "ml", "rs", parent="d"),
            "d": Workload("d", "Deployment", "ml", "d", queue="team"),
        },
    )  # fmt: skip
    assert systems_of(owned, Pod("u", "ml", "x", workload="rs")) == (System.KUEUE,)
    volcano = gang_of(scheduler="default-scheduler", api="scheduling.volcano.sh/v1beta1")
    assert systems_of(volcano, volcano.pods["u0"]) == (System.VOLCANO,)


def seen(name, took, declared=None, restarts=0):
    notes = {"defrag.gpu.internal/image-pull": declared} if declared else {}
    return read_seen(
        {
            "metadata": {"uid": name, "annotations": notes},
            "spec": {"containers": [{"image": "train:1"}]},
            "status": {
                "conditions": [
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                ],
                "containerStatuses": [
                    {"restartCount": restarts, "state": {"running": {"startedAt": f"2026-01-01T00:{took}Z"}}}
                ],
            },
        }
    )


def test_a_start_is_measured_on_pods_of_the_same_image_unless_it_is_declared():
    others = [seen("a", "00:05"), seen("b", "03:00"), seen("c", "59:00", restarts=1)]
    assert start_of("a", others) == Start(180.0, "start, measured with its image pull")
    assert start_of("d", [*others, seen("d", "00:01", declared="4m")]) == Start(240.0, "image pull")
    assert start_of("nobody", others) == Start()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("1m30s", 90), ("-1s", -1), ("-1", -1), ("250ms", 0.25), (5, 5), ("soon", None),
     (True, None), (None, None), ("1e9s", None), ("9" * 400, None)],
)  # fmt: skip
def test_durations_are_read_as_go_writes_them(text, seconds):
    assert read_duration(text) == seconds


class Cluster:
    """Answers reads from a table: a list, or the error that it raises. What is not in it does not exist."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def _answer(self, plural):
        self.asked.append(plural)
        found = self.answers.get(plural, NotFound(f"no {plural}"))
        if isinstance(found, Exception):
            raise found
        return found

    def list_objects(self, kind, *, namespace=None, **_):
        return ObjectList(list(self._answer(kind.plural)), "1")

    def list_reduced(self, kind, reduce):
        return [reduce(raw) for raw in self._answer(kind.plural)], "1"

    def get_object(self, kind, name, *, namespace=None):
        return self._answer(kind.plural)


def shard(**spec):
    return {"metadata": {"name": "default"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "arguments", "grace", "consolidates"),
    [
        ({}, (), 60.0, True),
        ({}, ("--default-staleness-grace-period=5m",), 300.0, True),
        (
            {"args": {"defaultStalenessGracePeriod": "30s"}},
            ("--default-staleness-grace-period", "5m"),
            30.0,
            True,
        ),
        ({"actions": {"stalegangeviction": {"enabled": False}}}, (), -1.0, True),
        ({"actions": {"consolidation": {"enabled": False}}}, (), 60.0, False),
        ({"placementStrategy": {"gpu": "spread"}}, (), 60.0, False),
    ],
)
def test_kais_settings_come_from_its_shards_and_its_flags(spec, arguments, grace, consolidates):
    program = Program("Deployment", "kai", "kai-scheduler-default", (), arguments)
    kai = read_settings(Cluster(schedulingshards=[shard(**spec)]), [program]).kai
    assert (kai.is_present, kai.grace_seconds, kai.consolidates) == (True, grace, consolidates)


def test_what_may_not_be_read_is_told_with_the_file_that_grants_it():
    refused = Forbidden("may not list")
    programs = [
        Program("Deployment", "n", name)
        for name in ("kai-scheduler", "kueue-controller-manager", "volcano-x")
    ]
    answers = dict.fromkeys([SHARDS.plural, CONFIG_MAPS.plural, "jobs"], refused)
    found = read_settings(Cluster(**answers), programs)
    for one in (found.kai, found.kueue, found.volcano):
        assert one.is_present
        assert "deploy/rbac/trust.yaml" in one.unread[0]


def test_a_plan_without_such_pods_costs_no_request():
    picture = Snapshot("c", NOW, pods={"u": Pod("u", "ml", "x")})
    cluster = Cluster()
    plan = SimpleNamespace(moves=(SimpleNamespace(pod_uid="u"),), preemptions=())
    assert refuse_others(plan, picture, cluster) == {}
    assert cluster.asked == []
