"""While a plan is computed, and how good it then says it is."""

import pytest

from apps.planner.plan import Alternative, Preemption, Refusal
from apps.planner.plan_json import digest, plan_from_dict, plan_to_dict
from apps.plans import services
from apps.plans.models import Plan, PlanVersion
from apps.plans.queries import current_version
from tests.dashboard.conftest import log_in
from tests.dashboard.test_grid_pages import text_of
from tests.dashboard.test_plan_pages import PLANS, draft, page_of

__all__ = ["draft"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def search(planner, cluster, picture) -> Plan:
    plan = services.request_plan(actor=planner, cluster=cluster, goal="free-nodes", seconds=60)
    plan = services.claim_draft(plan_id=plan.pk)
    told = {"stage": "trying for one node more", "achieved": 7, "moves": 31, "bound": 9}
    services.note_progress(plan=plan, told=told)
    return plan


def test_the_page_shows_stage_best_so_far_bound_gap_and_time(search, viewer):
    page = text_of(log_in(viewer).get(page_of(search)))
    assert "Computing… Trying for one node more" in page
    assert "7 nodes freed with 31 moves; no plan can free more than 9." in page
    assert "Bound at most 9 nodes" in page
    assert "Gap 22 % at most 2 more" in page
    assert "of at most 1 min" in page
    assert "Stop and keep" not in page


def test_its_author_stops_it_once_or_twice_or_discards_it(search, planner):
    client = log_in(planner)
    assert "Stop and keep the best plan so far" in text_of(client.get(page_of(search)))
    for _ in range(2):
        page = text_of(client.post(f"{page_of(search)}stop/", follow=True))
        assert "Stopping… The best plan so far is checked and kept." in page
    assert "Discard" in page
    page = text_of(client.post(f"{page_of(search)}withdraw/", follow=True))
    assert "It was taken back before it was computed." in page


def test_somebody_else_cannot_stop_it(search, operator):
    page = text_of(log_in(operator).post(f"{page_of(search)}stop/", follow=True))
    assert "You may not administer" in page
    search.refresh_from_db()
    assert search.stop_asked_at is None


@pytest.mark.parametrize(
    ("seconds", "line"), [("601", "take 1 to 600"), ("soon", "a whole number of seconds, not 'soon'")]
)
def test_the_time_limit_is_asked_for_and_checked(planner, picture, seconds, line):
    client = log_in(planner)
    assert 'name="seconds" type="number" min="1" max="600" value="10"' in client.get(PLANS).content.decode()
    refused = client.post(PLANS, {"goal": "free-nodes", "seconds": seconds}, follow=True)
    assert line in text_of(refused)
    client.post(PLANS, {"goal": "free-nodes", "seconds": "30"})
    assert Plan.objects.get().request["seconds"] == 30


def put(plan, *, ending="", **facts):
    """The same plan with other facts, as its next version."""
    first = current_version(plan)
    found = plan_to_dict(plan_from_dict(first.body))
    body = {**found, **facts}
    PlanVersion.objects.create(
        plan=plan, number=first.number + 1, body=body, digest=digest(body), snapshot=first.snapshot,
        snapshot_taken_at=first.snapshot_taken_at, snapshot_digest=first.snapshot_digest,
        ending=ending, search_seconds=4.2,
    )  # fmt: skip
    Plan.objects.filter(pk=plan.pk).update(version_number=first.number + 1)
    plan.refresh_from_db()


NODES = {"goal": "free-nodes", "unlocked": [], "unlocked_gpus": 0, "hand_overs": []}


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"lower_bound": 5, "gap": 0.4}, "At most 2 more could be freed no plan frees more than 5 nodes"),
        ({"lower_bound": 3, "gap": 0.0}, "As many as can be no plan frees more; whether fewer moves"),
        ({"lower_bound": 3, "proven_optimal": True}, "Proven optimal no plan frees more nodes, or as many"),
    ],
)  # fmt: skip
def test_of_freed_nodes_it_says_how_many_more_could_be(draft, viewer, facts, words):
    put(draft, **{**NODES, "proven_optimal": False, **facts})
    assert words in text_of(log_in(viewer).get(page_of(draft)))


def test_of_an_unlock_it_says_how_many_moves_are_too_many(draft, viewer):
    moves = len(current_version(draft).body["moves"])
    put(draft, proven_optimal=False, lower_bound=moves - 2, gap=0.25)
    page = text_of(log_in(viewer).get(page_of(draft)))
    assert f"At most 2 too many at least {moves - 2} moves: gap 25 %" in page
    put(draft, proven_optimal=False, lower_bound=0, gap=0)
    assert "no bound is known" in text_of(log_in(viewer).get(page_of(draft)))


def test_a_search_that_was_cut_short_says_so_unless_its_answer_is_proven(draft, viewer):
    client = log_in(viewer)
    put(draft, proven_optimal=False, ending="limit")
    assert "cut short by its time limit of 10 s" in text_of(client.get(page_of(draft)))
    put(draft, proven_optimal=False, ending="stopped")
    assert "The search was stopped after 4 s: this is the best plan" in text_of(client.get(page_of(draft)))
    put(draft, proven_optimal=True, ending="limit")
    assert "cut short" not in text_of(client.get(page_of(draft)))


def test_the_second_best_what_was_relaxed_and_who_is_preempted_stand_on_the_page(draft, planner, approver):
    victim = current_version(draft).body["moves"][0]
    left = [{**move, "order": at} for at, move in enumerate(current_version(draft).body["moves"][1:], 1)]
    given = Preemption(
        1, victim["pod_uid"], victim["pod"], victim["source"], victim["gpus"], 7, 3600.0, "It ranks lower."
    )
    other = Alternative(("a100-02",), 9, 1, 7200.0, "Nine moves instead of seven.")
    found = plan_from_dict({**current_version(draft).body, "moves": left})
    body = plan_to_dict(type(found)(**{name: getattr(found, name) for name in found.__slots__} | {
        "preemptions": (given,), "runner_up": other,
        "relaxed": ("links are counted, not packed", *(f"note {number}" for number in range(7))),
        "refused": tuple(Refusal(f"ml/p-{number}", "It is protected.") for number in range(300)),
    }))  # fmt: skip
    put(draft, **body)
    page = text_of(log_in(planner).get(page_of(draft)))
    assert "This plan preempts. 1 pod loses its place" in page
    assert page.count("loses its place") == 1
    assert f"After {len(left)} moves and 1 preemption" in page
    assert "Preempted 1 pod" in page
    assert "It ranks lower." in page
    assert "Nine moves instead of seven. on a100-02: 9 moves, 1 preemption and 2.0 GPU-h" in page
    assert "links are counted, not packed" in page
    assert "note 3 3 more note 4" in page
    assert "ml/p-199" in page
    assert "ml/p-200" not in page
    assert "The first 200 of 300 pods" in page
    assert f"Propose {len(left)} moves and 1 preemption" in page
