"""Policies over REST: who reads, who edits, lost updates, and what they forbid elsewhere in the API."""

import pytest

from apps.audit.models import AuditEntry
from apps.executions import services as executions
from tests.plans.situations import approve, make_cluster, proposed, see

pytestmark = pytest.mark.django_db(transaction=True)
NIGHT = {
    "weekdays": ["fri", "sat"],
    "start": "18:00",
    "end": "08:00",
    "time_zone": "Europe/Berlin",
    "reason": "x",
}


@pytest.fixture
def admin(caller):
    return caller("root", "admin")


def tag(who, name="east"):
    return who.get(f"policies/{name}/")["ETag"]


def test_whoever_sees_the_cluster_reads_its_policy_and_nobody_else(caller, west):
    viewer = caller("ida", "viewer")
    answer = viewer.get("policies/east/").json()
    assert (answer["version"], answer["protected_namespaces"], answer["max_moves_per_plan"]) == (0, [], None)
    assert answer["kill_switch"] == {"is_on": False, "reason": "", "stopped_by": None, "stopped_at": None}
    assert [one["cluster"] for one in viewer.get("policies/").json()["results"]] == ["east"]
    assert viewer.get("policies/west/").status_code == 404


def test_an_edit_names_what_it_looked_at_and_the_ledger_has_before_and_after(admin, problem):
    path, old = "policies/east/", tag(admin)
    assert problem(admin.send("patch", path, max_moves_per_plan=5), 428, "precondition-needed")
    answer = admin.send("patch", path, if_match=old, max_moves_per_plan=5, freeze_windows=[NIGHT])
    assert answer.status_code == 200, answer.content
    assert (answer.json()["version"], answer.json()["freeze_windows"]) == (1, [NIGHT])
    assert answer["ETag"] == tag(admin) != old
    assert problem(admin.send("patch", path, if_match=old, max_moves_per_plan=9), 412, "precondition-failed")
    replaced = admin.send("put", path, if_match=answer["ETag"], protected_namespaces=["prod-*"]).json()
    assert (replaced["max_moves_per_plan"], replaced["freeze_windows"]) == (None, [])
    details = list(AuditEntry.objects.filter(action="policy.changed").values_list("detail", flat=True))
    assert details[1]["before"] == {
        "max_moves_per_plan": 5,
        "freeze_windows": [NIGHT],
        "protected_namespaces": [],
    }
    assert details[1]["after"] == {
        "max_moves_per_plan": None,
        "freeze_windows": [],
        "protected_namespaces": ["prod-*"],
    }


@pytest.mark.parametrize("roles", [["viewer", "planner", "approver", "operator", "auditor"]])
def test_only_an_admin_of_the_cluster_edits(caller, problem, roles):
    person = caller("omar", *roles)
    answer = person.send("patch", "policies/east/", if_match="*", max_moves_per_plan=5)
    assert problem(answer, 403, "denied")
    elsewhere = caller("west.root", "admin", cluster=make_cluster("south"))
    answer = elsewhere.send("patch", "policies/east/", if_match="*", max_moves_per_plan=5)
    assert problem(answer, 404, "not-found")


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"protected_namespaces": ["Prod"]}, "protected_namespaces"),
        ({"protected_namespaces": ["[a-z]*"]}, "protected_namespaces"),
        ({"max_moves_per_plan": 0}, "max_moves_per_plan"),
        ({"freeze_windows": [{**NIGHT, "time_zone": "Europe/Atlantis"}]}, "freeze_windows"),
        (
            {"freeze_windows": [{**NIGHT, "first_day": "2026-12-24", "last_day": "2026-12-26"}]},
            "freeze_windows",
        ),
        ({"freeze_windows": [{**NIGHT, "start": "25:00"}]}, "freeze_windows"),
        ({"freeze_windows": [{"start": "18:00"}]}, "freeze_windows"),
        ({"kill_switch": True}, "kill_switch"),
    ],
)
def test_what_cannot_stand_in_a_policy_is_refused_by_its_field(admin, wish, field):
    answer = admin.send("patch", "policies/east/", if_match="*", **wish)
    assert answer.status_code == 422, answer.content
    assert {one["field"] for one in answer.json()["errors"]} == {field}


def test_what_is_wrong_inside_a_list_is_told_with_its_place(admin):
    """In words: no line of Python's own."""
    wishes = {"protected_namespaces": ["ok", "A B"], "freeze_windows": [NIGHT, {**NIGHT, "begin": "1"}]}
    errors = admin.send("patch", "policies/east/", if_match="*", **wishes).json()["errors"]
    assert errors[0] == {
        "field": "protected_namespaces",
        "message": "1: This value does not match the required pattern.",
    }
    assert errors[1]["field"] == "freeze_windows"
    assert errors[1]["message"].startswith("1.begin: there is no such field; known are weekdays,")


def test_a_plan_may_ask_for_as_many_moves_as_the_policy_allows(admin, caller, east, problem):
    see(east)
    admin.send("patch", "policies/east/", if_match="*", max_moves_per_plan=5)
    planner = caller("ada", "planner")
    wish = {"cluster": "east", "goal": "free-nodes"}
    detail = problem(planner.post("plans/", **wish, max_moves=6), 422, "over-limit")
    assert "the policy of east allows 5 moves a plan (max_moves_per_plan)" in detail
    answer = planner.post("plans/", **wish)
    assert (answer.status_code, answer.json()["request"]["max_moves"]) == (201, 5)


def test_the_kill_switch_is_thrown_by_an_operator_and_released_by_an_admin(admin, caller, east, problem):
    operator = caller("omar", "operator")
    plan = approve(proposed(east, caller("ada", "planner").user), caller("ben", "approver").user)
    assert problem(operator.post("policies/east/stop/", reason=" "), 422, "invalid")
    assert problem(caller("ida", "viewer").post("policies/east/stop/", reason="x"), 403, "denied")
    thrown = operator.post("policies/east/stop/", reason="the network burns").json()
    assert thrown["kill_switch"]["is_on"] is True
    assert thrown["ban"]["kind"] == "kill switch"
    assert problem(operator.post("policies/east/stop/", reason="again"), 409, "wrong-state")
    detail = problem(operator.post("executions/", plan=plan.pk), 409, "held-by-policy")
    assert "by omar: the network burns" in detail
    assert problem(operator.post("policies/east/release/", reason="out"), 403, "denied")
    assert problem(admin.post("policies/east/release/"), 422, "invalid")
    released = admin.post("policies/east/release/", reason="it is out").json()
    assert released["ban"] is None
    assert executions.start_execution(actor=operator.user, plan_id=plan.pk).state == "queued"
    actions = AuditEntry.objects.filter(action__startswith="policy.").values_list("action", "actor__username")
    assert list(actions) == [("policy.stopped", "omar"), ("policy.released", "root")]


def test_a_node_says_that_its_pod_is_protected_and_its_etag_is_another_one(admin, east):
    see(east)
    path = "nodes/node-a/"
    before = admin.get(path, cluster="east")
    admin.send("patch", "policies/east/", if_match="*", protected_namespaces=["ml"])
    after = admin.get(path, cluster="east")
    (pod,) = after.json()["pods"]
    assert (before.json()["pods"][0]["is_movable"], pod["is_movable"]) == (True, False)
    assert "its namespace ml is protected by the cluster's policy" in pod["reasons"]
    assert before["ETag"] != after["ETag"]
