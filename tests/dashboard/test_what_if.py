"""The what-if page: the question in the address, every node's verdict, and what would make room."""

import csv
import io
import time
from dataclasses import replace

import pytest

from apps.dashboard.reading.what_if import read_ask, say_shape
from apps.dashboard.reading.what_if_changes import draw_effect, say_effect
from apps.planner.inventory import LinkClass
from apps.planner.whatif import Shape
from apps.planner.whatif_effect import Effect, Standing
from tests.dashboard.conftest import log_in, make_picture
from tests.dashboard.pictures import Board
from tests.dashboard.pictures_mig import mig_board
from tests.dashboard.test_grid_pages import text_of

pytestmark = pytest.mark.django_db
PAGE = "/clusters/gpu-east-1/what-if/"


def ask(**told: str):
    return read_ask(told)


def test_a_search_that_was_cut_short_claims_no_difference():
    side = Standing(1, 8, 8, 1, 0, (), {"8": 1}, 1, 1, 8, "nvlink", 0, 0)
    late = Effect(side, replace(side, starts=("ml/a",)), new_starts=("ml/a",), was_late=True)
    assert say_effect(late) == "What could start was not found out in time; more might than is told."
    (starts,) = [line for line in draw_effect(late) if line.name == "Workloads that could start now"]
    assert (starts.before, starts.after, starts.better) == ("at least 0 of 1", "at least 1 of 1", None)
    assert "1 workload more could start now: ml/a." in say_effect(replace(late, was_late=False))


def test_pods_of_a_removed_node_that_could_start_elsewhere_are_no_gain():
    side = Standing(2, 16, 8, 1, 0, (), {"8": 1}, 1, 1, 8, "nvlink", 0, 0)
    moved = replace(side, waiting=2, starts=("ml/a",))
    effect = Effect(side, moved, new_starts=("ml/a",), new_waiting=("ml/a",))
    assert say_effect(effect) == (
        "1 workload of the removed nodes would wait again: ml/a; 1 of them could start elsewhere at once."
    )
    (starts,) = [line for line in draw_effect(effect) if line.name == "Workloads that could start now"]
    assert (starts.after, starts.better) == ("1 of 2", None)


def test_a_question_is_read_from_the_address():
    found = ask(
        gpus="4", count="3", link="nvlink", model="A100", memory_mib="60000", cpu="500m", host_memory_mib="64"
    )
    assert found.shape == Shape(
        count=3,
        gpus=4,
        link=LinkClass.NVLINK,
        model="A100",
        memory_mib=60_000,
        cpu_milli=500,
        host_memory_mib=64,
    )
    assert ask(mig="1g.10gb", mig_count="2").shape == Shape(mig=(("1g.10gb", 2),))
    assert ask(gpus="0.25").shape == Shape(gpus=1, milli=250)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"gpus": "x"}, "GPUs must be a number such as 4 or 0.5, not 'x'."),
        ({"gpus": "1.5"}, "More than one GPU must be a whole number of GPUs."),
        ({"gpus": "900"}, "At most 64 GPUs a pod can be asked for."),
        ({"count": "0"}, "Pods must be a whole number from 1 to 512, not '0'."),
        ({"cpu": "-1"}, "CPU must be a number of cores such as 8 or 500m, not '-1'."),
        ({"cpu": "9e99"}, "CPU must be a number of cores such as 8 or 500m, not '9e99'."),
        ({"link": "wire"}, "Link 'wire' is none of nvlink, pcie-switch, numa, node."),
        ({"mig": "half"}, "'half' is no MIG profile: write it like 1g.10gb."),
    ],
)
def test_what_cannot_be_read_is_said_and_nothing_is_guessed(told, said):
    found = ask(**told)
    assert found.shape is None
    assert list(found.errors.values()) == [said]


def test_a_shape_is_said_in_words():
    assert say_shape(Shape(count=3, gpus=8, link=LinkClass.NVLINK)) == "3 pods of 8 GPUs, NVLink"
    assert say_shape(Shape(gpus=1, milli=250, model="A100")) == "1 pod of 25 % of a GPU, A100"
    assert say_shape(Shape(mig=(("1g.10gb", 1),), cpu_milli=1500)) == "1 pod of 1 × 1g.10gb and 1.5 CPU"


def test_nodes_are_ranked_with_their_score_and_every_rule(viewer, picture):
    client = log_in(viewer)
    page = text_of(client.get(f"{PAGE}?gpus=2&model=A100-SXM4-80GB&memory_mib=60000"))
    assert "1 pod of 2 GPUs, A100-SXM4-80GB, at least 60,000 MiB a GPU: 7 of 40 nodes take it now" in page
    assert "10 such pods fit, 1 wanted." in page
    assert "Score: 75 for 75 % of its GPUs in use, +20 for NVLink" in page
    assert "Has H800-SXM5-80GB." in page
    assert "The node is cordoned." in page
    assert "24 Model" in page
    assert "What would make room" not in page


def test_what_does_not_fit_asks_the_planner_beside_the_page(viewer, picture):
    client = log_in(viewer)
    page = client.get(f"{PAGE}?gpus=8&count=3&link=nvlink")
    assert "None of 40 nodes takes it now." in text_of(page)
    part = f"{PAGE}room/?gpus=8&amp;count=3&amp;link=nvlink"
    assert f'hx-get="{part}"' in page.content.decode()
    room = text_of(client.get(part.replace("&amp;", "&")))
    assert "makes room on a100-07, h800-08 and h800-10. No fewer would do." in room
    assert "nothing is held or moved" in room


def test_an_impossible_shape_says_who_stands_in_the_way(viewer, cluster):
    board = Board(now=time.time())
    board.node("n-1", "CA4 SQ4")
    make_picture(cluster, board.snapshot())
    room = text_of(log_in(viewer).get(f"{PAGE}room/?gpus=8"))
    assert "No set of up to 50 moves makes room for it." in room
    assert "on n-1 stays: its namespace is protected." in room


def test_a_workload_that_waits_is_judged_by_all_its_own_rules(viewer, picture):
    client = log_in(viewer)
    page = text_of(client.get(f"{PAGE}?workload=default/llama-70b"))
    assert "llama-70b: None of 40 nodes takes it now." in page
    assert "Judged with all the rules of default/llama-70b" in page
    gone = text_of(client.get(f"{PAGE}?workload=default/nobody"))
    assert "This workload does not wait" in gone


def test_mig_shapes_count_instances_and_lead_to_layouts(viewer, cluster):
    make_picture(cluster, mig_board(time.time()).snapshot())
    client = log_in(viewer)
    assert "take it now; 3 such pods fit, 3 wanted." in text_of(client.get(f"{PAGE}?mig=3g.40gb&count=3"))
    room = text_of(client.get(f"{PAGE}room/?mig=7g.80gb&count=1"))
    assert "anew makes room on mig-01." in room
    assert "1 × 7g.80gb" in room


def test_nothing_asked_and_nothing_known_are_two_empty_pages(viewer, cluster):
    client = log_in(viewer)
    assert "No snapshot of this cluster yet" in text_of(client.get(PAGE))
    board = Board(now=time.time())
    board.node("n-1", ". .")
    make_picture(cluster, board.snapshot())
    assert "Ask for a shape" in text_of(client.get(f"{PAGE}?count=3"))
    assert "GPUs must be a number" in text_of(client.get(f"{PAGE}?gpus=%3Cb%3E"))
    assert client.get(f"{PAGE}room/").status_code == 400


def test_every_verdict_can_be_taken_along(viewer, picture):
    client = log_in(viewer)
    rows = list(csv.DictReader(io.StringIO(client.get(f"{PAGE[:-1]}.csv?gpus=4").content.decode())))
    assert len(rows) == 40
    assert (rows[0]["fits"], rows[0]["rule_gpus"], rows[-1]["fits"]) == ("True", "True", "False")
    told = client.get(f"{PAGE[:-1]}.json?gpus=4").json()["nodes"]
    assert told[-1]["why_not"]
    assert client.get(f"{PAGE[:-1]}.csv?gpus=x").status_code == 400


def test_long_rankings_come_in_pages(viewer, picture):
    page = log_in(viewer).get(f"{PAGE}?gpus=1&page=2").content.decode()
    assert 'data-l="Rank">26<' in page
    assert '<input type="hidden" name="page" value="2">' in page


def test_changes_are_tried_from_the_address_and_their_effect_is_told_beside_the_page(viewer, picture):
    client = log_in(viewer)
    told = client.get(f"{PAGE}?gpus=8&new_what=add&new_name=a100-01&new_number=2")
    assert (told.status_code, told["Location"]) == (302, f"{PAGE}?gpus=8&change=add%3A2%3Aa100-01")
    page = client.get(told["Location"])
    assert "2 nodes like a100-01 added" in text_of(page)
    assert "Under the changes. 1 pod of 8 GPUs: 2 of 42 nodes take it now" in text_of(page)
    assert "a100-01+1 If added" in text_of(page)
    assert "a100-01+1/" not in page.content.decode()  # no link to a node that is not there
    assert f'hx-get="{PAGE}effect/?gpus=8&amp;change=add%3A2%3Aa100-01"' in page.content.decode()
    effect = text_of(client.get(f"{PAGE}effect/?change=add:2:a100-01"))
    assert "Nodes 40 42 other" in effect
    assert "could start now: default/llama-70b" not in effect  # it wants three such nodes
    assert "1 workload more could start now" in text_of(client.get(f"{PAGE}effect/?change=add:3:a100-01"))
    csv_rows = client.get(f"{PAGE.rstrip('/')}.csv?gpus=8&change=add:2:a100-01").content.decode()
    assert "a100-01+2" in csv_rows


def test_a_change_that_cannot_be_made_is_said_and_nothing_is_ranked(viewer, picture):
    client = log_in(viewer)
    page = text_of(client.get(f"{PAGE}?gpus=8&new_what=remove&new_name=nobody"))
    assert "'remove:nobody': there is no node 'nobody' in this cluster." in page
    assert "nodes take" not in page
    assert client.get(f"{PAGE}effect/?change=grow").status_code == 400
    assert client.get(f"{PAGE.rstrip('/')}.json?gpus=1&change=grow").status_code == 400


def test_who_would_have_to_give_way_is_advised_where_no_move_makes_room(viewer, cluster):
    board = Board(now=time.time())
    board.node("n-1", "EN4 LS4")
    board.node("n-2", "EN4 ES4")
    board.pod("urgent", None, gpus=8, priority=1000)
    make_picture(cluster, board.snapshot())
    room = text_of(log_in(viewer).get(f"{PAGE}room/?workload=default/urgent-0"))
    assert "As a last resort Only if research/eval-nightly-0 and research/lora-sweep-0 give way" in room
    assert "could it start on n-1." in room
    assert "On n-2 instead a pod of priority 900 would have to give way; here none of more than 100." in room
    assert "allows no preemption (may_preempt), so this is advice only." in room
