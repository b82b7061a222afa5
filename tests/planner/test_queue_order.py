"""Who would fairly be next, and why; and who is next for the cluster's own scheduler."""

from dataclasses import replace

from apps.planner.queue_order import OrderPolicy, order_queue
from apps.planner.waiting import explain_pending
from tests.drawing import cluster, running, waiting

HOUR = 3600.0
NOW = 100 * HOUR


def line_up(drawing, *groups, policy=None, extra=(), **facts):
    seen = cluster(drawing, *groups, extra=extra, taken_at=NOW, **facts)
    found = explain_pending(seen)
    return order_queue(seen, found, policy) if policy else order_queue(seen, found)


def names(places):
    return [key.partition("/")[2] for key, place in places.items() if place.position]


def job(key, gpus=1, minutes=10, **facts):
    return waiting(key, gpus=gpus, created_at=NOW - 60 * minutes, **facts)


PROD_ONLINE = {"environment": "prod", "service": "online"}
DEV_OFFLINE = {"environment": "dev", "service": "offline"}


def test_priority_goes_before_any_weight():
    places = line_up("a1 ....", job("ml/prod", **PROD_ONLINE), job("ml/high", priority=5, **DEV_OFFLINE))
    assert names(places) == ["high", "prod"]
    assert places["ml/high"].words.startswith("priority 5, dev offline, ")


def test_layers_weigh_as_specified_and_prod_more_when_the_gpus_are_nearly_full():
    calm = line_up("a1 aaaa....", job("ml/one", **PROD_ONLINE), job("ml/two", service="offline"))
    assert (calm["ml/one"].weight, calm["ml/two"].weight) == (0.56, 0.06)
    just = line_up("a1 aaaa.", job("ml/one", **PROD_ONLINE))
    assert just["ml/one"].weight == 0.56  # exactly 80 %
    busy = line_up("a1 aaaaa.", job("ml/one", **PROD_ONLINE), job("ml/two", **DEV_OFFLINE))
    assert (busy["ml/one"].weight, busy["ml/two"].weight) == (0.63, 0.03)
    assert "prod weighs more while the GPUs are nearly full" in busy["ml/one"].words


def test_a_place_says_why_in_words():
    place = line_up("a1 aaaa....", job("team/serve", minutes=40, **PROD_ONLINE))["team/serve"]
    assert place.words == (
        "prod online, namespace team has 50 % of its dominant resource (nvidia.com/gpu), waited 40 min "
        "by the snapshot"
    )
    assert (place.position, place.scheduler_position, place.tenant) == (1, 1, "namespace team")


def test_who_holds_least_of_his_dominant_resource_goes_first_whatever_the_resource():
    cpu_heavy = running("crunch", "a1", cpu=100_000, namespace="cpus")
    gpu_heavy = running("train", "a1", gpus=2, namespace="gpus")
    places = line_up("a1 ........", job("gpus/x"), job("cpus/y"), job("new/z"), extra=[cpu_heavy, gpu_heavy])
    assert names(places) == ["z", "x", "y"]
    assert [places[f"{key}"].dominant for key in ("cpus/y", "gpus/x", "new/z")] == [
        "cpu",
        "nvidia.com/gpu",
        "",
    ]
    assert (
        places["new/z"].words
        == "dev offline (not labelled), namespace new holds nothing yet, waited 10 min by the snapshot"
    )


def test_tenants_alternate_since_each_place_counts_against_its_tenant():
    mine = [job(f"a/{name}", minutes=60) for name in ("one", "two", "three")]
    places = line_up("a1 ........", *mine, job("b/four", minutes=5))
    assert names(places)[1] == "four"
    assert sorted(places[f"a/{name}"].scheduler_position for name in ("one", "two", "three")) == [1, 2, 3]
    assert places["b/four"].scheduler_position == 4


def test_a_queue_is_a_tenant_across_namespaces():
    label = {"kueue.x-k8s.io/queue-name": "blue"}
    held = running("train", "a1", gpus=4, namespace="x", labels=label)
    places = line_up("a1 ........", job("y/mine", labels=label), job("z/other"), extra=[held])
    assert names(places) == ["other", "mine"]
    assert places["y/mine"].tenant == "queue blue"


def test_a_long_wait_goes_before_a_heavier_weight_and_ageing_can_be_turned_off():
    held = [running("p", "a1", gpus=1, namespace="p"), running("d", "a1", gpus=1, namespace="d")]
    groups = [job("p/prod", minutes=1, **PROD_ONLINE), job("d/dev", minutes=20 * 60, **DEV_OFFLINE)]
    assert names(line_up("a1 ........", *groups, extra=held)) == ["dev", "prod"]
    off = OrderPolicy(ageing_seconds=0)
    assert names(line_up("a1 ........", *groups, extra=held, policy=off)) == ["prod", "dev"]
    assert line_up("a1 ........", *groups, extra=held, policy=off)["d/dev"].aged_weight == 0.06


def test_what_waits_in_vain_keeps_nobody_of_its_tenant_back():
    gated = [job(f"a/gated{at}", gpus=2, minutes=60 - at, gates=("x.io/quota",)) for at in range(3)]
    places = line_up("a1 ........", *gated, job("a/ready", minutes=5), job("b/other", minutes=4))
    assert names(places)[:4] == ["gated0", "gated1", "gated2", "ready"]
    assert places["a/gated0"].scheduler_position is None
    assert (places["a/ready"].scheduler_position, places["b/other"].scheduler_position) == (1, 2)
    assert places["a/gated0"].words.endswith("takes no turn while it is gated")


def test_a_place_is_held_for_a_while_only():
    stuck = job("a/stuck", gpus=8, minutes=60)
    places = line_up("a1 b.......", stuck, job("a/next", minutes=50), job("b/other", minutes=50))
    assert names(places) == ["stuck", "other", "next"]
    short = OrderPolicy(place_seconds=1800)
    places = line_up(
        "a1 b.......", stuck, job("a/next", minutes=50), job("b/other", minutes=40), policy=short
    )
    assert names(places) == ["stuck", "next", "other"]


def test_what_can_never_run_has_no_place_and_stands_last():
    places = line_up("a1 ....", job("a/huge", gpus=16, priority=9), job("a/small"))
    assert list(places) == ["a/small", "a/huge"]
    assert (places["a/huge"].position, places["a/huge"].scheduler_position) == (None, None)
    assert places["a/huge"].words == "no place: it can never run here"


def test_a_gang_stands_whole_and_counts_whole():
    gang = job("a/gang", gpus=4, count=2, minutes=30)
    places = line_up("a1 ........\na2 ........", gang, job("a/later", minutes=20), job("b/other", minutes=10))
    assert names(places) == ["gang", "other", "later"]
    assert "2 pods at once" in places["a/gang"].words


def test_each_scheduler_has_an_order_of_its_own_and_the_same_cluster_the_same_places():
    groups = [
        job("a/kai", scheduler="kai-scheduler", minutes=9),
        job("a/one", minutes=8),
        job("b/two", minutes=7),
    ]
    places = line_up("a1 ....", *groups)
    assert [places[key].scheduler_position for key in ("a/kai", "a/one", "b/two")] == [1, 1, 2]
    seen = cluster("a1 ....", *groups, taken_at=NOW)
    turned = replace(seen, pods=dict(reversed(list(seen.pods.items()))))
    assert order_queue(turned, explain_pending(turned)) == order_queue(seen, explain_pending(seen))
