"""Whether a queue would admit what waits, in numbers: each rule by a scene of a few objects."""

from dataclasses import replace

import pytest

from apps.planner.defrag import plan_unlock
from apps.planner.inventory import Gang, Node, Pod, Workload
from apps.planner.queues import (
    Admission,
    Controller,
    Entrance,
    Flavor,
    PodSet,
    Queue,
    QueuedWorkload,
    Share,
)
from apps.planner.quota import judge_queues
from apps.planner.quota_room import QuotaRoom
from apps.planner.snapshot import Snapshot
from apps.planner.waiting import explain_pending, list_waiting

GPU = "nvidia.com/gpu"


def kueue(name="team-a", quota=112, used=112, *, flavor="default", **changes):
    """A ClusterQueue. changes: cohort, borrow, lend, and fields of `Queue`."""
    cohort = changes.pop("cohort", "")
    borrow = changes.pop("borrow", None) if cohort else 0
    share = Share(flavor, GPU, quota, used, borrow, changes.pop("lend", None))
    parent = f"Kueue/cohort/{cohort}" if cohort else ""
    given = {"parent": parent, "shares": (share,), **changes}
    return Queue(f"Kueue/{name}", Controller.KUEUE, "ClusterQueue", name, **given)


def cohort(name="all", quota=0, **changes):
    shares = (Share("default", GPU, quota),) if quota else ()
    return Queue(f"Kueue/cohort/{name}", Controller.KUEUE, "Cohort", name, shares=shares, **changes)


def wanted(name="llama", gpus=8, pods=3, **changes):
    """A Kueue Workload without pods. changes: fields of `QueuedWorkload`, selector."""
    selector = changes.pop("selector", {})
    pod = Pod(f"{name}/main", "team-a", f"{name}-main", requests={GPU: gpus}, node_selector=selector)
    given = {"entrance": "team-a/train", "owners": (f"uid-{name}",), "owner_name": name, **changes}
    return QueuedWorkload(f"team-a/job-{name}", f"wl-{name}", pod_sets=(PodSet("main", pods, pod),), **given)


def scene(*queues, waits=(), entrance="Kueue/team-a", **changes):
    names = ("n1", "n2", "n3", "n4")
    nodes = {name: Node(name, gpu_resource=GPU, allocatable={GPU: 8, "pods": 110}) for name in names}
    return Snapshot(
        "c1",
        1000.0,
        nodes=nodes,
        queues={queue.key: queue for queue in queues},
        entrances={"team-a/train": Entrance("team-a/train", entrance)},
        queued={one.key: one for one in waits},
        **changes,
    )


def judged(snapshot):
    return judge_queues(snapshot, list_waiting(snapshot)[0].items())


def test_a_full_queue_is_told_in_numbers():
    found = judged(scene(kueue(), waits=[wanted()]))["team-a/llama"]
    assert found.code == "quota"
    assert found.sentence == "Queue team-a uses 112 of 112 GPUs of flavor default; the gang asks for 24."
    assert not found.is_for_good


def test_what_fits_is_admitted_and_kueue_is_what_it_waits_for():
    found = judged(scene(kueue(quota=136), waits=[wanted(message="stale words.")]))["team-a/llama"]
    assert found.code == "not-admitted"
    assert found.sentence.endswith("Kueue has not admitted it yet. Kueue says: stale words.")


def test_what_can_never_be_given_out_waits_for_good():
    found = judged(scene(kueue(quota=16, used=0), waits=[wanted()]))["team-a/llama"]
    assert found.is_for_good
    assert "can never give out more than 16 GPUs" in found.sentence


@pytest.mark.parametrize(
    ("mine", "theirs", "is_admitted"),
    [
        ({"used": 8}, {"used": 0}, True),  # 8 of 8 used, all of the other's 24 to borrow
        ({"used": 8}, {"used": 1}, False),
        ({"used": 8, "borrow": 23}, {"used": 0}, False),
        ({"used": 8}, {"used": 0, "lend": 23}, False),
        ({"used": 4, "borrow": 20}, {"used": 0}, True),
    ],
)
def test_a_queue_borrows_what_its_cohort_leaves_within_both_limits(mine, theirs, is_admitted):
    queues = kueue(quota=8, cohort="all", **mine), kueue("other", 24, cohort="all", **theirs), cohort()
    found = judged(scene(*queues, waits=[wanted()]))["team-a/llama"]
    assert (found.code == "not-admitted") is is_admitted


def test_cohorts_of_cohorts_lend_to_each_other():
    above = Queue("Kueue/cohort/top", Controller.KUEUE, "Cohort", "top", shares=(Share("default", GPU, 24),))
    queues = kueue(quota=0, used=0, cohort="all"), cohort(parent="Kueue/cohort/top"), above
    assert judged(scene(*queues, waits=[wanted()]))["team-a/llama"].code == "not-admitted"
    assert judged(scene(*queues, waits=[wanted(gpus=9)]))["team-a/llama"].is_for_good


def test_two_that_each_fit_are_not_promised_the_same_quota():
    waits = [wanted("second", created_at=20.0), wanted("first", created_at=10.0)]
    found = judged(scene(kueue(quota=136), waits=waits))
    assert found["team-a/first"].code == "not-admitted"
    assert found["team-a/second"].code == "behind-others"
    assert "team-a/first is before it in queue team-a" in found["team-a/second"].sentence


@pytest.mark.parametrize(("strict", "code"), [(True, "behind-others"), (False, "not-admitted")])
def test_a_strict_queue_lets_nobody_past_its_first(strict, code):
    waits = [wanted("large", pods=9, created_at=10.0), wanted("small", pods=1, created_at=20.0)]
    found = judged(scene(kueue(quota=120, is_strict=strict), waits=waits))
    assert found["team-a/large"].code == "quota"
    assert found["team-a/small"].code == code


def test_priority_goes_before_age_in_a_queue():
    waits = [wanted("old", created_at=10.0), wanted("urgent", priority=5, created_at=20.0)]
    found = judged(scene(kueue(quota=136), waits=waits))
    assert (found["team-a/urgent"].code, found["team-a/old"].code) == ("not-admitted", "behind-others")


def test_a_stopped_queue_or_entrance_admits_nobody():
    stopped = scene(kueue(used=0, stopped="its stopPolicy is Hold"), waits=[wanted()])
    assert (
        judged(stopped)["team-a/llama"].sentence == "Its queue team-a admits nobody: its stopPolicy is Hold."
    )
    entrance = {"team-a/train": Entrance("team-a/train", "Kueue/team-a", "its stopPolicy is Hold")}
    held = replace(scene(kueue(used=0), waits=[wanted()]), entrances=entrance)
    assert judged(held)["team-a/llama"].code == "queue-stopped"


def test_a_queue_that_is_not_there_is_named():
    found = judged(scene(kueue(), waits=[wanted(entrance="team-a/typo")]))["team-a/llama"]
    assert (found.code, found.is_for_good) == ("queue-missing", True)
    assert "There is no queue team-a/typo" in found.sentence
    unread = replace(
        scene(waits=[wanted()]), problems=("clusterqueues cannot be read: apply the reader role",)
    )
    assert judged(unread) == {}


def test_a_flavor_whose_nodes_the_pods_rule_out_is_not_taken():
    queue = replace(kueue(), shares=(Share("a100", GPU, 24, 24, 0), Share("h100", GPU, 24, 0, 0)))
    flavors = {name: Flavor(name, {"model": name}) for name in ("a100", "h100")}
    free = scene(queue, waits=[wanted()], flavors=flavors)
    assert judged(free)["team-a/llama"].code == "not-admitted"  # the second flavor has room
    picky = scene(queue, waits=[wanted(selector={"model": "a100"})], flavors=flavors)
    assert judged(picky)["team-a/llama"].code == "quota"
    lost = scene(queue, waits=[wanted(selector={"model": "l40"})], flavors=flavors)
    assert judged(lost)["team-a/llama"].code == "flavor"
    assert "it wants model=l40" in judged(lost)["team-a/llama"].sentence


def test_quota_of_cpu_binds_as_well():
    queue = replace(
        kueue(used=0), shares=(Share("default", GPU, 112), Share("default", "cpu", 4000.0, 2000.0))
    )
    pod = Pod("p", "team-a", "p", requests={GPU: 1, "cpu": 3000})
    waits = replace(wanted(), pod_sets=(PodSet("main", 1, pod),))
    assert judged(scene(queue, waits=[waits]))["team-a/llama"].sentence == (
        "Queue team-a uses 2 of 4 CPUs of flavor default; the workload asks for 3."
    )


def test_a_pod_that_ends_holds_its_quota_until_it_is_gone():
    gone = wanted("gone", state=Admission.FINISHED)
    ending = Pod(
        "u1",
        "team-a",
        "gone-0",
        node_name="n1",
        phase="Running",
        terminating=True,
        requests={GPU: 8},
        workload="uid-gone",
    )
    for pods, used in (({}, False), ({"u1": ending}, True)):
        found = judged(scene(kueue(quota=24, used=0), waits=[wanted(), gone], pods=pods))["team-a/llama"]
        assert (found.code == "quota") is used
    assert found.sentence.startswith("Queue team-a uses 8 of 24 GPUs")


def test_reserved_quota_waits_for_checks_and_an_inactive_workload_for_people():
    reserved = wanted(state=Admission.RESERVED, checks=("provisioning",))
    found = judged(scene(kueue(), waits=[reserved]))["team-a/llama"]
    assert (found.code, "provisioning" in found.sentence) == ("not-admitted", True)
    switched_off = judged(scene(kueue(used=0), waits=[wanted(state=Admission.INACTIVE)]))["team-a/llama"]
    assert (switched_off.code, switched_off.is_for_good) == ("queue-held", True)


def test_a_workload_that_backs_off_says_until_when():
    waits = wanted(evicted="PodsReadyTimeout", tried_again_at=1060.0)
    sentence = judged(scene(kueue(used=0), waits=[waits]))["team-a/llama"].sentence
    assert sentence == "Kueue tries it again at 00:17:40 UTC after it lost its place (PodsReadyTimeout)."


# --- KAI, Volcano, elastic quotas ---


def bounded(controller, name, quota, used, limit, parent="", **changes):
    beyond = None if limit is None or quota is None else limit - quota
    share = Share("", GPU, quota, used, beyond, firm=changes.pop("firm", 0.0))
    return Queue(f"{controller}/{name}", controller, "Queue", name, parent=parent, shares=(share,), **changes)


def gang_of(api, queue, *, members=3, priority=50, phase="", **changes):
    labels = changes.pop("labels", {})
    pods = {
        f"u{at}": Pod(
            f"u{at}", "ml", f"p{at}", gang="ml/g", requests={GPU: 8}, priority=priority, labels=labels
        )
        for at in range(members)
    }
    gang = Gang("ml/g", members, api_version=api, queue=queue, phase=phase)
    return {"pods": pods, "gangs": {"ml/g": gang}}


def test_kais_limit_binds_on_every_way_to_the_root():
    gang = gang_of("scheduling.run.ai/v2alpha2", "research")
    queues = (
        bounded(Controller.KAI, "research", 8, 8, None, parent="KAI/root"),
        bounded(Controller.KAI, "root", 16, 20, 40),
    )
    found = judged(scene(*queues, **gang))["ml/g"]
    assert (found.code, found.sentence) == (
        "quota",
        "Queue root uses 20 of 16 GPUs and can borrow 20 more; the gang asks for 24.",
    )
    roomy = queues[0], bounded(Controller.KAI, "root", 16, 16, 40)
    assert judged(scene(*roomy, **gang)) == {}


def test_kai_gives_no_more_than_the_quota_to_what_may_not_be_preempted():
    queue = bounded(Controller.KAI, "research", 24, 40, None, firm=8)
    firm = gang_of("scheduling.run.ai/v2alpha2", "research", priority=100)
    assert "by what may not be preempted" in judged(scene(queue, **firm))["ml/g"].sentence
    assert judged(scene(queue, **gang_of("scheduling.run.ai/v2alpha2", "research", priority=99))) == {}


def test_volcanos_capability_binds_until_the_gang_is_enqueued():
    queue = bounded(Controller.VOLCANO, "batch", 32, 16, 32)
    waits = gang_of("scheduling.volcano.sh/v1beta1", "batch", phase="Pending")
    assert judged(scene(queue, **waits))["ml/g"].code == "quota"
    enqueued = gang_of("scheduling.volcano.sh/v1beta1", "batch", phase="Inqueue")
    assert judged(scene(queue, **enqueued)) == {}
    closed = replace(queue, stopped="its state is Closed")
    assert judged(scene(closed, **waits))["ml/g"].code == "queue-stopped"


def test_an_elastic_quota_binds_pod_by_pod():
    share = Share("", GPU, 4, 4, 4)
    quota = Queue(
        "scheduling-plugins/ml/q", Controller.SCHEDULER_PLUGINS, "ElasticQuota", "q", "ml", shares=(share,)
    )
    quota = replace(quota, key=f"{Controller.SCHEDULER_PLUGINS}/ml/q")
    small = {"pods": {"u": Pod("u", "ml", "p", requests={GPU: 4})}}
    assert judged(scene(quota, **small)) == {}
    large = {"pods": {"u": Pod("u", "ml", "p", requests={GPU: 5})}}
    assert judged(scene(quota, **large))["ml/p"].code == "quota"


# --- what follows ---


def test_what_waits_without_pods_is_shown_with_its_shape_and_no_plan_is_made():
    snapshot = scene(kueue(), waits=[wanted()])
    (found,) = explain_pending(snapshot)
    assert (found.key, found.display, found.queue) == ("team-a/llama", "llama", "train")
    assert (found.gpus, found.gpus_per_pod, found.pod_count, found.has_pods) == (24, 8, 3, False)
    assert found.reason_code == "quota"
    plan = plan_unlock(snapshot, workload=None, max_moves=5, deadline=lambda: False)
    assert [(one.pod, one.reason) for one in plan.refused] == [("team-a/llama", found.sentence)]
    assert plan.unlocked == ()


def test_pods_whose_owner_alone_names_the_queue_are_shown_in_it():
    owner = Workload("uid-llama", "Job", "team-a", "llama", queue="train")
    pods = {"u0": Pod("u0", "team-a", "llama-0", requests={GPU: 8}, workload="uid-llama")}
    snapshot = scene(kueue(quota=24, used=0), waits=[wanted()], pods=pods, workloads={owner.uid: owner})
    assert {one.queue for one in explain_pending(snapshot)} == {"train"}


def test_pods_of_one_workload_count_once_against_its_quota():
    pods = {
        f"u{at}": Pod(
            f"u{at}",
            "team-a",
            f"llama-{at}",
            requests={GPU: 8},
            workload="uid-llama",
            gates=("kueue.x-k8s.io/admission",),
        )
        for at in range(3)
    }
    snapshot = scene(kueue(quota=24, used=0), waits=[wanted()], pods=pods)
    found = explain_pending(snapshot)
    assert {one.reason_code for one in found} == {"not-admitted"}
    assert all(one.has_pods for one in found)
    admitted = replace(snapshot, queued={"w": wanted(state=Admission.ADMITTED)})
    assert {one.reason_code for one in explain_pending(admitted)} == {"gated"}


def test_a_large_queue_is_judged_in_little_more_than_its_length():
    waits = [wanted(f"w{at:04}", pods=1, gpus=1, created_at=float(at)) for at in range(300)]
    found = judged(scene(kueue(quota=212), waits=waits))
    codes = [found[f"team-a/w{at:04}"].code for at in range(300)]
    assert codes == ["not-admitted"] * 100 + ["behind-others"] * 200


def test_each_claim_costs_its_own_line_however_many_queues_its_cohort_has(monkeypatch):
    """Also where a cohort is its own parent."""
    asked, sums = [], QuotaRoom._subtree_used
    count = lambda room, queue, *told: (asked.append(queue.key), sums(room, queue, *told))[1]  # noqa: E731
    monkeypatch.setattr(QuotaRoom, "_subtree_used", count)
    queues = [kueue(f"q{at}", quota=9, used=0, cohort="all") for at in range(100)]
    waits = [wanted(f"w{at}", gpus=3, pods=1, entrance=f"team-a/l{at}") for at in range(100)]
    doors = {f"team-a/l{at}": Entrance(f"team-a/l{at}", f"Kueue/q{at}") for at in range(100)}
    for parent in ("", "Kueue/cohort/all"):
        asked.clear()
        found = judged(replace(scene(*queues, cohort(parent=parent), waits=waits), entrances=doors))
        assert {one.code for one in found.values()} == {"not-admitted"}
        assert len(asked) < 100 * 40  # summed anew for each claim it would be 100 × 100


def test_a_long_queue_is_not_gone_through_again_for_each_that_is_refused(monkeypatch):
    added, take = [], QuotaRoom.take
    monkeypatch.setattr(QuotaRoom, "take", lambda room, *told: (added.append(told), take(room, *told)))
    waits = [wanted(f"w{at:03}", gpus=1, pods=1, created_at=float(at)) for at in range(200)]
    found = judged(scene(kueue(quota=100, used=0), waits=waits))
    assert [found[f"team-a/w{at:03}"].code for at in (99, 100, 199)] == [
        "not-admitted",
        "behind-others",
        "behind-others",
    ]
    assert len(added) == 100


def test_what_is_taken_counts_as_if_all_were_summed_anew():
    """Lending limits on two levels: a member's use counts above only beyond what it never lends."""
    told = [
        kueue("a", quota=10, used=2, cohort="low", lend=4, borrow=30),
        kueue("b", quota=10, used=0, cohort="low", borrow=30),
        cohort("low", parent="Kueue/cohort/top"),
        kueue("c", quota=20, used=5, cohort="top", lend=5),
        cohort("top"),
    ]
    picture, part = scene(*told), ("default", GPU)
    kept = QuotaRoom(picture)
    for name, amount in (("a", 3), ("c", 12), ("b", 7), ("a", 6), ("b", -7), ("c", 4)):
        kept.left(picture.queues["Kueue/a"], part)
        kept.take(picture.queues[f"Kueue/{name}"], part, amount)
        anew = QuotaRoom(picture)
        anew.added.update(kept.added)
        assert [kept.left(one, part) for one in told] == [anew.left(one, part) for one in told]
