"""What waits, why, and the way to a plan."""

import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.pending import asking
from apps.pending.models import Stay
from apps.planner.plan_json import plan_from_dict
from apps.planner.unblocking import tell_preemption, tell_unblocking
from apps.plans import services
from apps.plans.computing import compute_draft
from apps.plans.models import Plan
from tests.dashboard.conftest import log_in, make_picture
from tests.dashboard.pictures import Board
from tests.dashboard.pictures_mig import mig_board
from tests.dashboard.test_grid_pages import text_of
from tests.drawing import cluster as drawn
from tests.drawing import waiting

pytestmark = pytest.mark.django_db(transaction=True)
QUEUE = "/clusters/gpu-east-1/queue/"


def test_a_waiting_gang_has_its_shape_wait_reason_and_node_counts(planner, picture):
    page = text_of(log_in(planner).get(QUEUE))
    assert "1 workload pending · 24 GPUs wanted · oldest 47 min" in page
    assert "llama-70b default 3 × 8 GPU, NVLink" in page
    assert "Fragmented" in page
    assert "36 too few free GPUs" in page


def test_make_a_plan_asks_for_exactly_that_workload(planner, picture):
    response = log_in(planner).post(
        "/clusters/gpu-east-1/plans/", {"goal": "unlock", "workload": "default/llama-70b"}
    )
    plan = Plan.objects.get()
    assert response.url == f"/clusters/gpu-east-1/plans/{plan.pk}/"
    assert plan.request["workload"] == "default/llama-70b"
    page = text_of(log_in(planner).get(QUEUE))
    assert f"Review plan {plan.pk}" in page
    assert "Make a plan" not in page


def test_nothing_that_waits_is_good_news_with_a_next_step(viewer, cluster):
    board = Board(now=time.time())
    board.node("n-1", ". . . .")
    make_picture(cluster, board.snapshot())
    assert "No workload waits" in text_of(log_in(viewer).get(QUEUE))


def test_without_a_script_the_offer_of_less_memory_is_a_link(viewer, picture):
    page = log_in(viewer).get(QUEUE).content.decode()
    without = page.partition('id="less-memory"')[2].partition("<noscript>")[2].partition("</noscript>")[0]
    assert f'href="{QUEUE}less-memory/"' in without


def test_filters_narrow_the_list_and_stay_in_the_form(viewer, picture):
    client = log_in(viewer)
    assert "llama-70b" in text_of(client.get(f"{QUEUE}?find=LLAMA"))
    assert "Nothing that waits matches these filters." in text_of(client.get(f"{QUEUE}?find=zzz"))
    assert "Nothing that waits matches these filters." in text_of(client.get(f"{QUEUE}?longer=3600"))
    assert '<option value="3600" selected>' in client.get(f"{QUEUE}?longer=3600").content.decode()


def test_a_wait_whose_beginning_nobody_told_is_not_made_up(viewer, cluster):
    board = Board(now=time.time())
    board.node("n-1", "ES . . .")
    board.waits("L7", 1, 8, since=board.now)
    make_picture(cluster, board.snapshot())
    page = text_of(log_in(viewer).get(QUEUE))
    assert "oldest not known" in page
    assert "days" not in page
    grid = text_of(log_in(viewer).get("/clusters/gpu-east-1/"))
    assert ") waits. " in grid
    assert "has waited" not in grid


def test_the_queue_can_be_exported(viewer, picture):
    client = log_in(viewer)
    assert client.get(f"{QUEUE[:-1]}.json").json()["pending"][0]["workload"] == "default/llama-70b"
    assert "default/llama-70b" in client.get(f"{QUEUE[:-1]}.csv").content.decode()


def test_the_sentence_on_the_grid_says_what_its_plan_would_do(planner, picture, cluster):
    plan = services.request_plan(actor=planner, cluster=cluster, goal="unlock", workload="default/llama-70b")
    grid = "/clusters/gpu-east-1/"
    assert (
        "Moving"
        not in text_of(log_in(planner).get(grid)).partition("Review plan")[0].rpartition("llama-70b")[2]
    )
    compute_draft(plan.pk)
    page = text_of(log_in(planner).get(grid))
    assert "the best node has 6. Moving 6 pods frees 3 nodes. Review plan" in page


def test_where_nothing_helps_why_it_waits_is_said_once(viewer, cluster):
    board = Board(now=time.time())
    board.node("n-1", "CA4 . . . .")
    board.waits("L7", 1, 8)
    make_picture(cluster, board.snapshot())
    client = log_in(viewer)
    assert "It wants 8 A100s, 4 are free." in text_of(client.get(QUEUE))
    key = client.get(f"{QUEUE[:-1]}.json").json()["pending"][0]["workload"]
    said = text_of(client.get(f"{QUEUE}unblocking/", {"workload": key}))
    assert said.startswith("No set of up to 50 moves makes room for it. serving/chat-api-0 on n-1 stays: its")


def test_one_workload_may_ask_for_preemption_where_the_policy_allows_it(planner, admin, picture, cluster):
    box = '<input type="checkbox" name="may_preempt" value="yes">'
    client = log_in(planner)
    assert box not in client.get(QUEUE).content.decode()
    services.change_policy(actor=admin, cluster=cluster, wishes={"may_preempt": True})
    assert box in client.get(QUEUE).content.decode()
    assert box not in client.get("/clusters/gpu-east-1/plans/").content.decode()


def test_what_would_help_is_found_beside_the_page_and_kept(viewer, picture):
    client = log_in(viewer)
    page = client.get(QUEUE).content.decode()
    part = f"{QUEUE}unblocking/?workload=default%2Fllama-70b"
    assert f'hx-get="{part}" hx-trigger="load"' in page
    said = text_of(client.get(part))
    assert said.startswith("Moving research/eval-nightly-0, serving/embed-svc-2 and 4 more makes room on")
    again = client.get(QUEUE)
    assert said in text_of(again)
    assert part not in again.content.decode()
    assert client.get(f"{QUEUE[:-1]}.json").json()["pending"][0]["unblocking"] == said
    assert client.get(f"{QUEUE}unblocking/?workload=x/y").status_code == 404


def test_the_button_makes_exactly_the_plan_that_the_sentence_speaks_of(planner, admin, picture, cluster):
    client = log_in(planner)
    part = f"{QUEUE}unblocking/?workload=default%2Fllama-70b"
    said = text_of(client.get(part))
    client.post("/clusters/gpu-east-1/plans/", {"goal": "unlock", "workload": "default/llama-70b"})
    compute_draft(Plan.objects.get().pk)
    made = plan_from_dict(Plan.objects.get().versions.get().body)
    assert (said, len(made.moves), len(made.hand_overs)) == (tell_unblocking(made), 6, 3)


def test_who_gives_way_by_the_sentence_gives_way_by_the_buttons_plan(planner, admin, cluster):
    """Within as many moves as a plan may have: with two, one pod more would move instead."""
    urgent = waiting("ml/urgent", gpus=4, count=2, priority=1000)
    scene = drawn("n1 aabb\n n2 ccdd\n n3 EE..\n n4 FF..", urgent, taken_at=time.time())
    make_picture(cluster, replace(scene, cluster=cluster.name))
    services.change_policy(
        actor=admin, cluster=cluster, wishes={"may_preempt": True, "max_moves_per_plan": 1}
    )
    client = log_in(planner)
    said = text_of(client.get(f"{QUEUE}unblocking/?workload=ml%2Furgent"))
    wish = {"goal": "unlock", "workload": "ml/urgent", "max_moves": "1", "may_preempt": "yes"}
    client.post("/clusters/gpu-east-1/plans/", wish)
    compute_draft(Plan.objects.get().pk)
    made = plan_from_dict(Plan.objects.get().versions.get().body)
    assert (len(made.moves), len(made.preemptions)) == (1, 3)
    assert said.endswith(tell_preemption(made))


def test_the_sentence_keeps_to_as_many_moves_as_a_plan_may_have(planner, admin, picture, cluster):
    services.change_policy(actor=admin, cluster=cluster, wishes={"max_moves_per_plan": 3})
    said = text_of(log_in(planner).get(f"{QUEUE}unblocking/?workload=default%2Fllama-70b"))
    assert said.startswith("No set of up to 3 moves makes room for it.")


def test_no_request_plans_itself_and_who_is_turned_away_gets_the_answer_later(viewer, picture, settings):
    client, gate = log_in(viewer), threading.Event()
    busy = asking._pool.submit(gate.wait, 60)
    settings.PLANNER_PATIENCE_SECONDS = 0.01
    part = client.get(f"{QUEUE}unblocking/?workload=default%2Fllama-70b")
    room = client.get("/clusters/gpu-east-1/what-if/room/?workload=default%2Fllama-70b")
    assert 'unblocking/?workload=default%2Fllama-70b" hx-trigger="load delay:2s"' in part.content.decode()
    assert "asked again in 2 seconds" in text_of(room)
    assert len(asking._owed) == 1
    settings.PLANNER_PATIENCE_SECONDS = 30.0
    gate.set()
    assert busy.result()
    assert "makes room on" in text_of(client.get(f"{QUEUE}unblocking/?workload=default%2Fllama-70b"))


def test_an_answer_that_nobody_fetched_for_long_is_found_anew(monkeypatch):
    key = ("gpu-east-1", "unlock", "ml/x")
    assert asking._submit(key, lambda: "then").result() == "then"
    assert asking._submit(key, lambda: "now").result() == "then"
    monkeypatch.setattr(asking, "OWED_SECONDS", 0.0)
    answer = asking._submit(key, lambda: "now")
    asking._forget(key, answer)
    assert answer.result() == "now"


def test_a_simulation_shows_the_best_nodes_with_every_rule(viewer, picture):
    client = log_in(viewer)
    closed = client.get(QUEUE).content.decode()
    assert "?simulate=default%2Fllama-70b" in closed
    page = client.get(f"{QUEUE}?simulate=default/llama-70b")
    assert "Where it would go now: None of 40 nodes takes it now." in text_of(page)
    assert "6 of 8 GPUs free, 8 wanted." in text_of(page)
    assert '<input type="hidden" id="simulated" name="simulate" value="default/llama-70b">' in (
        page.content.decode()
    )
    assert "/what-if/room/?workload=default%2Fllama-70b" in page.content.decode()


def test_pods_that_want_mig_instances_have_their_shape_and_lead_to_a_layout(planner, cluster):
    make_picture(cluster, mig_board(time.time()).snapshot())
    client = log_in(planner)
    page = text_of(client.get(QUEUE))
    assert "3 workloads pending · 6 MIG instances wanted" in page
    assert "video-gen media 2 pods, each waits by itself;" in page
    assert "for the first 2 × 7g.80gb" in page
    assert "No MIG instance" in page
    assert "It wants 1 x 7g.80gb (no open node offers any)." in page
    form = client.get(f"{QUEUE}?find=video-gen").content.decode()
    assert '<input type="hidden" name="goal" value="mig">' in form
    assert ">Plan layouts for all</button>" in form  # more than the sentence beside it speaks of
    said = text_of(client.get(f"{QUEUE}unblocking/?workload=media/video-gen-0"))
    assert "anew makes room on mig-01." in said


def test_the_queue_that_a_controller_named_is_told_and_found(viewer, cluster):
    board = Board(now=time.time())
    board.node("n-1", "CA4")
    board.pod("L7", None, 8, labels={"kueue.x-k8s.io/queue-name": "team-blue"})
    make_picture(cluster, board.snapshot())
    client = log_in(viewer)
    assert "default · queue team-blue" in text_of(client.get(f"{QUEUE}?find=team-blue"))
    assert client.get(f"{QUEUE[:-1]}.json").json()["pending"][0]["queue"] == "team-blue"


def test_questions_that_take_a_while_are_counted_and_refused_by_a_plain_page(viewer, picture, settings):
    settings.API_RATES = {**settings.API_RATES, "calls": (1, 3600)}
    client = log_in(viewer)
    room = "/clusters/gpu-east-1/what-if/room/?gpus=8"
    assert client.get(room).status_code == 200
    page = client.get(room)
    assert (page.status_code, 0 < int(page["Retry-After"]) <= 3600) == (429, True)
    assert "More than 1 in 3600 seconds: wait" in text_of(page)
    unblocking = client.get("/clusters/gpu-east-1/queue/unblocking/?workload=default/llama-70b")
    assert unblocking.status_code == 429


def test_pods_of_one_owner_that_wait_for_the_same_are_one_line_and_one_workload(viewer, cluster):
    board = Board(now=time.time())
    board.node("n-1", "ES2")
    for _ in range(7):
        board.pod("OC", None, 1)
    board.pod("OC", None, 2)
    board.waits("L7", 2, 8)
    make_picture(cluster, board.snapshot())
    client = log_in(viewer)
    response = client.get(QUEUE)
    page = text_of(response)
    assert "3 workloads pending · 25 GPUs wanted" in page
    assert page.count("7 pods, each waits by itself; a plan or a simulation is for the first") == 1
    assert "7 × 1 GPU" in page
    assert 'title="3 workloads waiting"' in response.content.decode()
    assert "2 other workloads wait too." in text_of(client.get("/clusters/gpu-east-1/"))
    assert "7 pods, each waits" in text_of(client.get(f"{QUEUE}?find=ocr-svc-6&simulate=serving/ocr-svc-3"))


def test_each_line_has_its_place_its_start_and_the_schedulers_own_words(viewer, cluster):
    board = Board(now=time.time())
    board.node("n-1", "ES . . .")
    said = (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 No."
    )
    board.pod("L7", None, 8, unschedulable_message=said)
    board.pod("OC", None, 4, unschedulable_message=said, priority=5)
    make_picture(cluster, board.snapshot())
    client = log_in(viewer)
    page = text_of(client.get(QUEUE))
    assert "2 workloads pending" in page
    assert "1 can never run here" in page
    assert page.index("ocr-svc") < page.index("l7 default")
    assert "Never: too large" in page
    assert "No node has 8 GPUs; the largest has 4." in page
    assert "Place: no place: it can never run here." in page
    assert "Place: priority 5, " in page
    assert f"default-scheduler: {said} The snapshot counts the same." in page
    assert (
        "Start: not known, because the end of the one pod on the node that it may use is not known." in page
    )


def test_the_order_and_the_choice_stand_in_the_address_and_go_into_the_files(viewer, cluster):
    board = Board(now=time.time())
    board.node("n-1", "ES . . .")
    for code, queue, minutes in (("OC", "blue", 90), ("L7", "red", 10)):
        labels = {"kueue.x-k8s.io/queue-name": queue}
        board.pod(code, None, 4, labels=labels, created_at=board.now - 60 * minutes)
    make_picture(cluster, board.snapshot())
    client = log_in(viewer)
    page = client.get(f"{QUEUE}?sort=queue&tenant=queue+red").content.decode()
    assert '<option value="queue" selected>' in page
    assert 'href="/clusters/gpu-east-1/queue.csv?tenant=queue+red&amp;sort=queue"' in page
    assert "ocr-svc" not in page.partition("<tbody>")[2]
    rows = client.get(f"{QUEUE[:-1]}.json?tenant=queue+red").json()["pending"]
    assert [(row["tenant"], row["scheduler_position"]) for row in rows] == [("queue red", 2)]
    waits = [row["wait_seconds"] for row in client.get(f"{QUEUE[:-1]}.json?sort=wait").json()["pending"]]
    assert waits == sorted(waits, reverse=True)


def test_waits_over_time_are_drawn_per_queue_and_shape(viewer, cluster):
    client = log_in(viewer)
    assert "No pod with devices got a node in this range" in text_of(client.get(f"{QUEUE}waits/"))
    now = timezone.now()
    for number in range(10):
        placed = now - timedelta(minutes=5 + number)
        asked = placed - timedelta(minutes=number + 1)
        of = {
            "cluster": cluster,
            "queue": "queue <blue>",
            "shape": "8 GPUs",
            "workload": f"ml/w-{number // 5}",
        }
        Stay.objects.create(**of, pod_uid=f"u{number}", asked_at=asked, placed_at=placed)
    response = client.get(f"{QUEUE}waits/?range=1h")
    assert "10 pods with devices got a node in the last 1 h" in text_of(response)
    assert "10 of 2 workloads 0 5 min 9 min" in text_of(response)
    drawing = response.content.decode().partition('<svg class="chart waits"')[2]
    assert "queue &lt;blue&gt;, 8 GPUs, over time" in drawing
    assert drawing.count('class="wait-half"') > 2
