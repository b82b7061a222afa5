"""Low use over a sliding window, and what agrees with the ledger. Pure."""

import time
from dataclasses import replace

from apps.planner.inventory import Gpu, Holding
from apps.prometheus.identity import Workload
from apps.prometheus.readings import Device, Unit
from apps.telemetry.advice import find_low_use, held_units, shorten
from apps.telemetry.holders import disagreements
from apps.telemetry.sightings import sightings_in
from apps.telemetry.windows import Use, average_use
from tests.plans.situations import node, pod

NOW = 1_800_000_000.0


def minutes(*percents):
    """One sample a minute of unit "g", the first the oldest; None: not measured."""
    return [(NOW + 60 * at, {} if one is None else {"g": (float(one), 1)}) for at, one in enumerate(percents)]


def use_over(told, **since):
    return average_use(told, since, of=15, least=10).get("g")


def test_an_instant_is_no_window():
    assert use_over(minutes(*[80] * 14, 0)).average == 80 * 14 / 15
    assert use_over(minutes(*[5] * 15)).is_low(30)
    assert not use_over(minutes(*[35] * 15)).is_low(30)


def test_too_few_minutes_are_not_measured_and_never_low():
    found = use_over(minutes(*[0] * 9, *[None] * 6))
    assert (found.average, found.reason) == (None, "only 9 of the last 15 minutes are measured")
    assert not found.is_low(30)
    assert use_over(minutes(*[None] * 15)) is None


def test_a_minute_weighs_the_same_however_many_samples_it_has():
    told = [(NOW, {"g": (400.0, 4)}), *((NOW + 60 * at, {"g": (0.0, 1)}) for at in range(1, 10))]
    assert use_over(told).average == 10


def test_what_was_before_a_new_layout_does_not_count():
    assert use_over(minutes(*[90] * 15), g=NOW + 600).minutes == 5


def device(place, *workloads, **facts):
    unit = Unit(
        utilisation=1.0, used_mib=100.0, workloads=tuple(Workload("ml", name, "main") for name in workloads)
    )
    return Device("n1", f"GPU-n1-{place}", str(place), "nvidia", units=(replace(unit, **facts),))


def held(place, percent, *workloads, there=None, pods=None):
    use = Use(percent, 15 if percent is not None else 0, 15, "" if percent is not None else "not measured")
    gpu = Gpu(place, f"GPU-n1-{place}")
    return held_units(there or node("n1"), gpu, device(place, *workloads), pods or {}, {"": use})


def test_low_use_names_pods_and_counts_what_is_not_measured():
    told = [*held(0, 10, "train-0"), *held(1, 80, "train-0"), *held(2, None, "other"), *held(3, 0)]
    found = find_low_use(told, below=30)
    (low,) = found.pods
    assert (low.pod, low.low, low.units, low.average) == ("ml/train-0", 1, 2, 10)
    assert (found.units, found.low_units, found.unmeasured) == (3, 1, 1)
    kept = shorten(replace(found, pods=(low, low, low)), 2)
    assert (kept.pods, kept.more, kept.low_units) == ((low, low), 1, 1)


def test_the_ledger_says_who_holds_a_gpu_before_the_exporter_does():
    there = node("n1", holdings=(Holding("uid-real", "GPU-n1-0"),))
    (one,) = held(0, 5, "stale", there=there, pods={"uid-real": pod("real", "n1", 1)})
    assert one.pod == "ml/real"


def test_a_gpu_of_two_containers_of_one_pod_is_one_gpu():
    there = node("n1", holdings=tuple(Holding("uid-real", "GPU-n1-0", 500, None, name) for name in "ab"))
    (one,) = held(0, 5, there=there, pods={"uid-real": pod("real", "n1", 1)})
    assert one.pod == "ml/real"


def test_a_disagreement_is_told_but_not_of_a_pod_that_came_just_now():
    old, new = pod("old", "n1", 1), pod("new", "n1", 1, started_at=time.time() - 5)
    there = node("n1", holdings=(Holding(old.uid, "GPU-n1-0"),))
    pods, now = {old.uid: old, new.uid: new}, time.time()
    told = disagreements(there, {"GPU-n1-0": device(0, "ghost")}, pods, at=now)
    assert told == ("GPU 0: the exporter names ml/ghost, but its holders are ml/old",)
    assert disagreements(there, {"GPU-n1-0": device(0, "old")}, pods, at=now) == ()
    assert disagreements(there, {"GPU-n1-0": device(0)}, pods, at=now) == ()
    assert disagreements(there, {"GPU-n1-0": device(0, "new")}, pods, at=now) == ()
    assert disagreements(node("n1"), {"GPU-n1-0": device(0, "ghost")}, pods, at=now) == ()


def test_sightings_leave_out_instances_and_silent_devices():
    silent = replace(device(1, "b"), silent_since=NOW)
    devices = [device(0, "a"), silent, device(2, "c", instance="9")]
    assert sightings_in(devices, at=NOW + 7) == {"n1": [("ml", "a", "GPU-n1-0", "main", NOW)]}
