"""Queues with quota, as bars on the page and over REST."""

import pytest

from apps.clusters.services import record_snapshot
from apps.planner.queues import Controller, Queue, Share
from apps.planner.snapshot import Snapshot
from tests.api.conftest import Caller, caller, east, problem, west  # noqa: F401
from tests.plans.situations import node

GPU = "nvidia.com/gpu"


def queue(name, share, **facts):
    given = {"controller": Controller.KUEUE, "kind": "ClusterQueue", "shares": (share,), **facts}
    return Queue(f"{given['controller']}/{name}", name=name, **given)


@pytest.fixture
def seen(east):  # noqa: F811
    """Two queues of one cohort, one of which has borrowed; a KAI queue without a bound; a stopped one."""
    both = {"parent": "Kueue/cohort/all"}
    queues = [
        queue("research", Share("a100", GPU, 112, 122), namespaces=("ml",), pending=2, **both),
        queue("batch", Share("a100", GPU, 24, 4), **both),
        Queue("Kueue/cohort/all", Controller.KUEUE, "Cohort", "all"),
        queue("kai-root", Share("", GPU, None, 7), controller=Controller.KAI, kind="Queue"),
        queue("closed", Share("", GPU, 8, 0, 0), stopped="its stopPolicy is <b>Hold</b>"),
        queue("cpu-only", Share("", "cpu", 4000, 0, 0)),
    ]
    picture = Snapshot("east", 1000.0, nodes={"n1": node("n1")}, queues={one.key: one for one in queues})
    return record_snapshot(cluster_id=east.pk, snapshot=picture)


def test_the_api_tells_quota_used_and_borrowed(seen, caller):  # noqa: F811
    ada = caller("ada", "viewer")
    answer = ada.get("queues/", cluster="east")
    found = {one["key"]: one for one in answer.json()["results"]}
    (share,) = found["Kueue/research"]["shares"]
    assert share == {
        "flavor": "a100",
        "resource": GPU,
        "quota": 112.0,
        "used": 122.0,
        "borrowed": 10.0,
        "limit": None,
        "left": 10.0,  # of the other's 24 it uses 4, and 10 are lent
    }
    assert found["KAI/kai-root"]["shares"][0]["quota"] is None
    assert (
        ada.client.get("/api/v1/queues/?cluster=east", headers={"if-none-match": answer["ETag"]}).status_code
        == 304
    )


def test_queues_are_filtered_ordered_and_paged_like_the_rest(seen, caller, problem):  # noqa: F811
    ada = caller("ada", "viewer")

    def names(**query):
        return [one["name"] for one in ada.get("queues/", cluster="east", **query).json()["results"]]

    assert names() == ["kai-root", "batch", "closed", "cpu-only", "research", "all"]
    assert names(controller="KAI") == ["kai-root"]
    assert names(kind="Cohort") == ["all"]
    assert names(namespace="ml") == ["research"]
    assert names(ordering="-name", page_size=2) == ["research", "kai-root"]
    assert "name" in problem(ada.get("queues/", cluster="east", ordering="colour"), 422, "invalid")


def test_who_may_not_see_the_cluster_sees_no_queues(seen, caller, west, problem):  # noqa: F811
    problem(caller("eve", "viewer", cluster=west).get("queues/", cluster="east"), 404, "not-found")


def test_the_page_shows_bars_with_their_numbers(seen, caller):  # noqa: F811
    page = caller("ada", "viewer").client.get("/clusters/east/queue/").content.decode()
    assert 'aria-label="research: 112 of 112 GPUs used, 10 borrowed"' in page
    assert "+10 borrowed" in page
    assert "can borrow" not in page.partition("research")[0].partition("closed")[2]
    assert "7, no bound" in page
    assert "2 workloads waiting" in page
    assert "Admits nobody: its stopPolicy is &lt;b&gt;Hold&lt;/b&gt;" in page
    assert "cpu-only" not in page  # the bars are of devices
    assert "No workload waits" in page


def test_no_bars_where_no_queue_hands_out_devices(east, caller):  # noqa: F811
    record_snapshot(cluster_id=east.pk, snapshot=Snapshot("east", 1000.0, nodes={"n1": node("n1")}))
    assert (
        "Quota by queue" not in caller("ada", "viewer").client.get("/clusters/east/queue/").content.decode()
    )
