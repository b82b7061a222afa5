"""A search while it runs: what people see of it, and how they end it."""

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from apps.accounts.errors import Denied
from apps.audit.models import AuditEntry
from apps.planner.progress import Progress as Told
from apps.plans import computing, queries, services
from apps.plans.computing import compute_draft
from apps.plans.errors import InvalidRequest, OverLimit, WrongState
from apps.plans.models import Plan
from apps.plans.queries import current_version, progress_of
from apps.plans.search_watch import SearchWatch
from apps.plans.searches import search_of
from tests.plans.situations import make_cluster, person, plan_of_one_move, see

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster():
    cluster = make_cluster()
    see(cluster)
    return cluster


@pytest.fixture
def author():
    return person("author", "planner")


@pytest.fixture
def draft(cluster, author):
    """Being computed."""
    plan = services.request_plan(actor=author, cluster=cluster, goal="free-nodes")
    return services.claim_draft(plan_id=plan.pk)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def progress(plan):
    plan.refresh_from_db()
    return progress_of(plan, current_version(plan))


def sentence(plan):
    plan.refresh_from_db()
    return search_of(plan).sentence


def test_people_see_the_stage_the_best_so_far_and_the_bound(draft):
    watch, clock = watching(draft)
    assert sentence(draft) == "No plan yet."
    watch.hear(Told("looking for a first plan", bound=9))
    assert sentence(draft) == "No plan yet; no plan can free more than 9 nodes."
    clock.now += 1
    watch.hear(Told("trying for one node more", achieved=7, moves=31, bound=9))
    assert sentence(draft) == "7 nodes freed with 31 moves; no plan can free more than 9."
    assert search_of(draft).gap == pytest.approx(2 / 9)
    clock.now += 1
    watch.hear(Told("done", achieved=9, moves=1, bound=9))
    assert sentence(draft) == "9 nodes freed with 1 move; no plan can free more."


def watching(plan, limit=10.0):
    clock = Clock()
    return SearchWatch(plan, limit=limit, clock=clock), clock


def test_word_is_written_seldom_and_the_last_one_is_not_lost(draft, django_assert_num_queries):
    watch, clock = watching(draft)
    watch.hear(Told("one"))
    with django_assert_num_queries(0):
        for number in range(50):
            clock.now += 0.009
            watch.hear(Told(f"stage {number}"))
    clock.now += 0.3
    assert not watch.is_over()
    draft.refresh_from_db()
    assert draft.search["stage"] == "stage 49"


def test_the_planner_asks_often_and_the_rows_are_asked_seldom(draft, django_assert_max_num_queries):
    watch, clock = watching(draft)
    with django_assert_max_num_queries(5):
        for _ in range(1000):
            clock.now += 0.001
            assert not watch.is_over()


def test_the_limit_ends_a_search_and_it_stays_ended(draft):
    watch, clock = watching(draft, limit=3)
    assert not watch.is_over()
    clock.now += 3
    assert watch.is_over()
    clock.now -= 3
    assert (watch.is_over(), watch.ending) == (True, "limit")


def test_the_lease_lasts_as_long_as_the_worker_gives_signs(draft):
    watch, clock = watching(draft, limit=600)
    Plan.objects.update(computing_until=timezone.now() + timedelta(seconds=1))
    clock.now += 30
    watch.is_over()
    draft.refresh_from_db()
    assert draft.computing_until > timezone.now() + timedelta(seconds=60)


def test_a_database_that_is_away_ends_no_search(draft, monkeypatch):
    def fail(**_):
        raise OperationalError("the connection is closed")

    monkeypatch.setattr(queries, "is_stop_asked", fail)
    monkeypatch.setattr(services, "note_progress", fail)
    watch, _ = watching(draft)
    watch.hear(Told("one"))
    assert not watch.is_over()


def test_stopped_the_best_plan_so_far_becomes_the_version(cluster, author, monkeypatch):
    plan = services.request_plan(actor=author, cluster=cluster, goal="free-nodes")
    seen = []

    def search(snapshot, request, *, deadline, tell):
        tell(Told("trying for more", achieved=1, moves=1, bound=2))
        assert not deadline()
        for _ in range(2):
            services.stop_search(plan_id=plan.pk, actor=author)
        seen.append(progress(plan))
        monkeypatch.setattr("apps.plans.search_watch.LOOK_SECONDS", 0.0)
        assert deadline()
        return plan_of_one_move(lower_bound=2.0, gap=0.5)

    monkeypatch.setattr(computing, "search_plan", search)
    compute_draft(plan.pk)
    version = current_version(plan)
    assert seen == ["stopping"]
    assert progress(plan) == "ready"
    assert (version.ending, version.body["proven_optimal"], version.body["gap"]) == ("stopped", False, 0.5)
    assert (plan.search, plan.stop_asked_at, search_of(plan)) == ({}, None, None)
    entry = AuditEntry.objects.get(action="plan.search_stopped")
    assert (entry.actor, entry.detail["so_far"]["achieved"]) == (author, 1)
    assert services.stop_search(plan_id=plan.pk, actor=author).state == "draft"


def test_discarded_the_search_ends_and_nothing_is_kept(cluster, author, monkeypatch):
    plan = services.request_plan(actor=author, cluster=cluster, goal="free-nodes")

    def search(snapshot, request, *, deadline, tell):
        services.withdraw_plan(plan_id=plan.pk, actor=author)
        assert deadline()
        return plan_of_one_move()

    monkeypatch.setattr(computing, "search_plan", search)
    assert compute_draft(plan.pk)
    plan.refresh_from_db()
    assert (plan.state, current_version(plan)) == ("withdrawn", None)
    assert not AuditEntry.objects.filter(action="plan.computed").exists()


def test_a_stop_that_was_asked_before_any_worker_came_still_gives_an_answer(cluster, author):
    plan = services.request_plan(actor=author, cluster=cluster, goal="free-nodes")
    assert sentence(plan) == "Waits for a worker."
    services.stop_search(plan_id=plan.pk, actor=author)
    assert progress(plan) == "stopping"
    compute_draft(plan.pk)
    assert progress(plan) in ("ready", "empty")
    assert current_version(plan).ending == "stopped"


def test_a_stopped_search_whose_worker_died_is_taken_up_by_another(draft, author):
    services.stop_search(plan_id=draft.pk, actor=author)
    Plan.objects.update(computing_until=timezone.now() - timedelta(seconds=1))
    assert compute_draft(draft.pk)
    assert progress(draft) in ("ready", "empty")


def test_an_edit_forgets_the_stop(draft, author):
    services.stop_search(plan_id=draft.pk, actor=author)
    services.revise_plan(plan_id=draft.pk, actor=author, seconds=30)
    assert progress(draft) == "computing"
    assert draft.request["seconds"] == 30


def test_only_its_author_or_an_admin_stops_it_and_only_a_search(draft, author, cluster):
    with pytest.raises(Denied):
        services.stop_search(plan_id=draft.pk, actor=person("other", "planner"))
    services.stop_search(plan_id=draft.pk, actor=person("admin", "admin"))
    services.withdraw_plan(plan_id=draft.pk, actor=author)
    with pytest.raises(WrongState, match="nothing is being computed"):
        services.stop_search(plan_id=draft.pk, actor=author)


def test_the_policy_limits_seconds_and_preemption(cluster, author):
    admin = person("admin", "admin")
    services.change_policy(actor=admin, cluster=cluster, wishes={"max_seconds_per_plan": 5})
    plan = services.request_plan(actor=author, cluster=cluster, goal="free-nodes")
    assert plan.request["seconds"] == 5
    with pytest.raises(OverLimit, match="allows 5 seconds"):
        services.request_plan(actor=author, cluster=cluster, goal="free-nodes", seconds=6)
    wish = {"actor": author, "cluster": cluster, "may_preempt": True}
    with pytest.raises(OverLimit, match="no plan to preempt"):
        services.request_plan(goal="unlock", workload="ml/big", **wish)
    with pytest.raises(InvalidRequest, match="to one workload only"):
        services.request_plan(goal="unlock", **wish)
    with pytest.raises(InvalidRequest, match="preempts nothing"):
        services.request_plan(goal="free-nodes", **wish)
    services.change_policy(actor=admin, cluster=cluster, wishes={"may_preempt": True})
    assert services.request_plan(goal="unlock", workload="ml/big", **wish).request["may_preempt"] is True
