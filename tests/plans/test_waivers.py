"""A protected pod moves only with a waiver that names it, each protection and why, and that was approved."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.audit.models import AuditEntry
from apps.kube.gateway import DEPLOYMENTS, NAMESPACES, NODES, PODS, REPLICASETS
from apps.kube.translate import build_snapshot
from apps.planner.movability import INTERACTIVE, MovabilityRules
from apps.planner.plan import Waiver
from apps.planner.plan_json import digest, plan_from_dict, plan_to_dict
from apps.planner.verification import check_plan
from apps.planner.waiving import is_waivable, lift, protections_of, waive
from apps.plans import services
from apps.plans.computing import compute_draft
from apps.plans.errors import DigestMismatch, InvalidRequest
from apps.plans.models import Plan
from apps.plans.queries import current_version, open_plan
from apps.plans.states import PlanState
from tests.plans.situations import approve, make_cluster, person, picture, plan_of_one_move, pod, see

LOCAL = "its local volume scratch (emptyDir) would be lost"
STATIC = "it is a static pod of its node"


def lora(**facts):
    return picture(pods=[pod("lora", "node-a", 1, **facts)])


def waiver(*protections, uid="uid-lora"):
    return Waiver(uid, "ml/lora", protections, "agreed with ada", "ada")


@pytest.mark.parametrize(
    ("protection", "is_liftable"),
    [
        ("its annotation karpenter.sh/do-not-disrupt is true", True),
        ("its annotation cluster-autoscaler.kubernetes.io/safe-to-evict is false", True),
        ("its annotation defrag.gpu.internal/protect is true", True),
        ("the annotation defrag.gpu.internal/protect of its namespace ml is true", True),
        (LOCAL, True),
        ("its volume data lies on the node (hostPath)", True),
        ("it is an interactive notebook", True),
        (STATIC, False),
        ("it belongs to the DaemonSet agent, which runs it on this node only", False),
        ("no controller owns it, so nothing would recreate it", False),
        ("its priority marks it as critical to the system", False),
        ("it belongs to the LeaderWorkerSet a, which restarts its whole group for one lost pod", False),
        ("it belongs to the JobSet a, which restarts or fails as a whole for one lost pod", False),
        ("its devices come by resource claims (DRA), which bind its place", False),
        ("its namespace prod is protected by the cluster's policy", False),
    ],
)
def test_what_a_waiver_lifts_and_what_it_never_can(protection, is_liftable):
    seen = lora(protections=(protection,))
    plan = plan_of_one_move(waivers=(waiver(protection),))
    assert is_waivable(protection) is is_liftable
    waived = waive(seen, plan.waivers)
    assert MovabilityRules(waived).judge(waived.pods["uid-lora"]).movable is is_liftable
    assert [fault for fault in check_plan(seen, plan) if protection in fault] == [
        f"ml/lora: {protection}" for _ in range(not is_liftable)
    ]


def test_only_the_named_protection_of_the_named_pod_is_lifted():
    both = lora(protections=(LOCAL, "its annotation karpenter.sh/do-not-disrupt is true"))
    left = lift(both.pods["uid-lora"], [LOCAL]).protections
    assert left == ("its annotation karpenter.sh/do-not-disrupt is true",)
    for wrong in (waiver(LOCAL, uid="uid-other"), waiver("its local volume other (emptyDir) would be lost")):
        assert [one for one in check_plan(both, plan_of_one_move(waivers=(wrong,))) if LOCAL in one]


def test_a_pod_that_somebody_works_in_is_interactive_until_that_is_waived():
    seen = lora(labels={"notebook-name": "ada"})
    assert protections_of(seen.pods["uid-lora"]) == (INTERACTIVE,)
    plan = plan_of_one_move(waivers=(waiver(INTERACTIVE),))
    assert not MovabilityRules(seen).judge(seen.pods["uid-lora"]).movable
    waived = waive(seen, plan.waivers)
    assert MovabilityRules(waived).judge(waived.pods["uid-lora"]).movable
    assert [one for one in check_plan(seen, plan_of_one_move()) if "interactive" in one]
    assert [one for one in check_plan(seen, plan) if "interactive" in one] == []


def test_a_protected_owner_is_lifted_with_every_sentence_about_owners():
    said = "the annotation defrag.gpu.internal/protect of its ReplicaSet lora is true"
    seen = lora(protections=(said, LOCAL))
    seen.workloads["rs-lora"] = replace(seen.workloads["rs-lora"], protected=True)
    judged = {}
    for lifted in ((said, LOCAL), (LOCAL,)):
        plan = plan_of_one_move(waivers=(waiver(*lifted),))
        waived = waive(seen, plan.waivers)
        judged[lifted] = MovabilityRules(waived).judge(waived.pods["uid-lora"]).movable
        assert bool([one for one in check_plan(seen, plan) if "protected" in one]) is not judged[lifted]
    assert judged == {(said, LOCAL): True, (LOCAL,): False}


def test_the_sentences_that_are_read_from_a_cluster_are_the_ones_a_waiver_names():
    """What the translation writes, waived one by one, leaves nothing."""
    marks = {"karpenter.sh/do-not-disrupt": "true", "defrag.gpu.internal/protect": "true"}
    owner = {"controller": True, "kind": "ReplicaSet", "name": "web-1", "uid": "rs"}
    volumes = [{"name": "scratch", "emptyDir": {}}, {"name": "host", "hostPath": {"path": "/x"}}]
    raw = {
        "metadata": {
            "name": "web", "namespace": "ml", "uid": "p", "annotations": marks, "ownerReferences": [owner],
            "labels": {"notebook-name": "x"},
        },
        "spec": {"nodeName": "n", "volumes": volumes},
        "status": {"phase": "Running"},
    }  # fmt: skip
    protect = {"defrag.gpu.internal/protect": "true"}
    above = [{**owner, "kind": "Deployment", "name": "web", "uid": "d"}]
    sets = {"metadata": {"name": "web-1", "namespace": "ml", "uid": "rs", "ownerReferences": above}}
    deployment = {"metadata": {"name": "web", "namespace": "ml", "uid": "d", "annotations": protect}}
    namespace = {"metadata": {"name": "ml", "uid": "ns", "annotations": protect}}
    objects = {
        PODS: [raw],
        NODES: [],
        REPLICASETS: [sets],
        DEPLOYMENTS: [deployment],
        NAMESPACES: [namespace],
    }
    found = build_snapshot("x", objects, 0.0).pods["p"]
    protections = protections_of(found)
    assert len(protections) == 8
    assert [one for one in protections if not is_waivable(one)] == []
    assert lift(found, protections).protections == ()


def test_the_digest_binds_who_which_pod_which_protection_and_why():
    plain, first = plan_of_one_move(), plan_of_one_move(waivers=(waiver(LOCAL),))
    others = [
        replace(first, waivers=(replace(waiver(LOCAL), **{name: value}),))
        for name, value in (
            ("by", "eve"), ("reason", "why not"), ("pod_uid", "uid-x"), ("protections", (LOCAL, INTERACTIVE))
        )
    ]  # fmt: skip
    assert len({digest(plan_to_dict(one)) for one in (plain, first, *others)}) == 6
    assert plan_from_dict(plan_to_dict(first)) == first


@pytest.mark.django_db(transaction=True)
def test_from_the_wish_to_the_approval_and_an_edit_voids_it():
    cluster = make_cluster()
    ada, ben = person("ada", "planner"), person("ben", "approver")
    beside = [pod("train", "node-b", 7, protections=(STATIC,)), pod("serve", "node-c", 8)]
    see(cluster, picture(pods=[pod("lora", "node-a", 1, protections=(LOCAL,)), *beside]))
    plan = services.request_plan(actor=ada, cluster=cluster, goal="free-nodes")
    compute_draft(plan.pk)
    assert open_plan(current_version(plan)).moves == ()

    wish = [{"pod": "ml/lora", "reason": "scratch only,\nagreed"}]
    services.revise_plan(plan_id=plan.pk, actor=ada, waivers=wish)
    compute_draft(plan.pk)
    plan.refresh_from_db()
    found = open_plan(current_version(plan))
    assert [move.pod for move in found.moves] == ["ml/lora"]
    assert found.waivers == (Waiver("uid-lora", "ml/lora", (LOCAL,), "scratch only, agreed", "ada"),)
    services.propose_plan(plan_id=plan.pk, actor=ada)
    plan.refresh_from_db()
    before = current_version(plan).digest
    approve(plan, ben)
    (edited,) = AuditEntry.objects.filter(action="plan.edited")
    assert edited.detail["request"]["waivers"][0]["by"] == "ada"

    services.revise_plan(plan_id=plan.pk, actor=ada, waivers=[])
    compute_draft(plan.pk)
    plan.refresh_from_db()
    assert plan.state == PlanState.DRAFT
    assert open_plan(current_version(plan)).moves == ()
    Plan.objects.filter(pk=plan.pk).update(
        state=PlanState.PROPOSED, expires_at=timezone.now() + timedelta(hours=1)
    )
    with pytest.raises(DigestMismatch):
        approve(plan, ben, digest=before)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("facts", "wish", "words"),
    [
        ({}, {"pod": "ml/lora"}, "nothing protects ml/lora: leave its waiver out"),
        (
            {"protections": (LOCAL, STATIC)},
            {"pod": "ml/lora"},
            f"no waiver can let ml/lora be moved: {STATIC}",
        ),
        ({"protections": (LOCAL,)}, {"pod": "ml/other"}, "no pod 'ml/other' runs in the newest snapshot"),
        ({"protections": (LOCAL,)}, {"pod": "ml/lora", "reason": " "}, "say in one line"),
    ],
)
def test_a_waiver_that_helps_nobody_is_refused_in_one_line(facts, wish, words):
    cluster = make_cluster()
    see(cluster, lora(**facts))
    asked = {"goal": "free-nodes", "waivers": [{"reason": "agreed", **wish}]}
    with pytest.raises(InvalidRequest, match=words.replace("(", r"\(").replace(")", r"\)")):
        services.request_plan(actor=person("ada", "planner"), cluster=cluster, **asked)
