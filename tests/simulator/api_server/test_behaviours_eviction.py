"""Evictions and disruption budgets: behaviours 38 to 42 of a real API server, each named by its number.

What the disruption controller writes into a budget's status is written here by the test itself.
"""

import pytest

from tests.simulator.api_server.conftest import NS, pod

PDBS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
BLOCKED = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(name, *, options=None, body_name="", **query):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": body_name or name}}
    if options:
        body["deleteOptions"] = options
    return (("POST", f"{NS}/pods/{name}/eviction", body), query)


def evicted(api, name, **options):
    call, query = evict(name, **options)
    return api.do(*call, **query)


@pytest.fixture
def budget(api):
    """Makes a budget for the pods labelled app=ev, observed by its controller."""

    def make(allowed, *, healthy=2, desired=2, name="pdb", observed=True, **spec):
        selector = {"matchLabels": {"app": "ev"}}
        api.post(
            PDBS,
            {"metadata": {"name": name}, "spec": {"minAvailable": desired, "selector": selector, **spec}},
        )
        status = {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired}
        if observed:
            api.patch(
                f"{PDBS}/{name}/status",
                {"status": {**status, "observedGeneration": 1, "expectedPods": healthy}},
            )

    return make


def test_behaviour_38_a_spent_budget_blocks_without_retry_after(api, running, budget):
    running("e1", labels={"app": "ev"})
    budget(0)
    for reply in (evicted(api, "e1"), evicted(api, "e1", dryRun="All")):
        assert (reply.code, reply.reason, reply.message) == (429, "TooManyRequests", BLOCKED)
        assert "Retry-After" not in reply.headers
        cause = {
            "reason": "DisruptionBudget",
            "message": "The disruption budget pdb needs 2 healthy pods and has 2 currently",
        }
        assert reply.json["details"] == {"causes": [cause]}


def test_behaviour_39_a_budget_not_yet_observed_says_when_to_come_back(api, running, budget):
    running("e1", labels={"app": "ev"})
    budget(1, observed=False)
    assert api.get(f"{PDBS}/pdb").json["status"]["disruptionsAllowed"] == 0
    reply = evicted(api, "e1")
    assert (reply.code, reply.headers["Retry-After"]) == (429, "10")
    assert reply.json["details"]["retryAfterSeconds"] == 10


def test_behaviour_40_an_eviction_marks_the_pod_in_two_events(api, running):
    version = running("e1")["metadata"]["resourceVersion"]
    call = evict("e1")[0]
    events = api.watch(f"{NS}/pods", resourceVersion=version, while_watching=[call])
    assert [e["type"] for e in events] == ["MODIFIED", "MODIFIED"]
    first, second = (e["object"] for e in events)
    assert first["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    assert "deletionTimestamp" not in first["metadata"]
    assert "deletionTimestamp" in second["metadata"]


def test_behaviour_40_six_evictions_at_once_take_exactly_the_budget(api, running, budget):
    for i in range(6):
        running(f"e{i}", labels={"app": "ev"})
    budget(2, healthy=6, desired=4)
    replies = api.together(*(evict(f"e{i}") for i in range(6)))
    assert sorted(r.code for r in replies) == [201, 201, 429, 429, 429, 429]
    status = api.get(f"{PDBS}/pdb").json["status"]
    assert status["disruptionsAllowed"] == 0
    assert len(status["disruptedPods"]) == 2


def test_behaviour_40_a_dry_run_spends_nothing(api, running, budget):
    running("e1", labels={"app": "ev"})
    budget(1)
    for options in ({"dryRun": "All"}, {"options": {"dryRun": ["All"]}}):
        assert evicted(api, "e1", **options).code == 201
    assert api.get(f"{PDBS}/pdb").json["status"]["disruptionsAllowed"] == 1
    assert "deletionTimestamp" not in api.get(f"{NS}/pods/e1").json["metadata"]


def test_a_failed_precondition_still_spends_the_budget(api, running, budget):
    running("e1", labels={"app": "ev"})
    budget(1)
    wrong = {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}}
    assert evicted(api, "e1", options=wrong).code == 409
    assert api.get(f"{PDBS}/pdb").json["status"]["disruptionsAllowed"] == 0
    assert "deletionTimestamp" not in api.get(f"{NS}/pods/e1").json["metadata"]


def test_behaviour_41_pods_that_cost_no_budget(api, running, budget):
    budget(0)
    running("e1", labels={"app": "ev"})
    api.delete(f"{NS}/pods/e1")
    assert evicted(api, "e1").code == 201
    api.post(f"{NS}/pods", pod("pend", labels={"app": "ev"}))
    assert evicted(api, "pend").code == 201
    assert api.get(f"{NS}/pods/pend").code == 404


@pytest.mark.parametrize(
    ("healthy", "policy", "code"), [(2, None, 201), (1, None, 429), (1, "AlwaysAllow", 201)]
)
def test_behaviour_41_a_pod_that_is_not_ready(api, running, budget, healthy, policy, code):
    running("e1", ready=False, labels={"app": "ev"})
    budget(0, healthy=healthy, **({"unhealthyPodEvictionPolicy": policy} if policy else {}))
    assert evicted(api, "e1").code == code


def test_behaviour_41_two_budgets_wrong_names_and_missing_pods(api, running, budget):
    running("e1", labels={"app": "ev"})
    budget(1)
    budget(1, name="other")
    reply = evicted(api, "e1")
    assert (reply.code, reply.reason) == (500, "")
    assert reply.message.startswith("This pod has more than one PodDisruptionBudget")
    assert evicted(api, "e1", body_name="x").code == 400
    assert evicted(api, "nope").code == 404


@pytest.mark.parametrize(
    ("healthy", "words"),
    [(0, "needs 0 healthy pods and has 0 currently"), (2, "does not allow evicting pods currently")],
)
def test_behaviour_42_a_budget_that_never_allows_anything(api, running, budget, healthy, words):
    running("e1", labels={"app": "ev"})
    budget(0, healthy=healthy, desired=0)
    cause = evicted(api, "e1").json["details"]["causes"][0]["message"]
    assert cause == f"The disruption budget pdb {words}"


def test_a_budget_with_both_bounds_is_invalid(api):
    reply = api.post(PDBS, {"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}})
    assert reply.code == 422
    assert "minAvailable and maxUnavailable cannot be both set" in reply.message
