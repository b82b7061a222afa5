"""What the gate watchdog may touch, and above all what it leaves alone."""

import json
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from apps.gate_watchdog import stale
from tests.executions.stage import ROOT

OVER = datetime(2026, 1, 1, 12, tzinfo=UTC)
PAST, AHEAD = "2026-01-01T11:59:59+00:00", "2026-01-01T12:00:01+00:00"


def node(*, cordon=None, labels=None, held=None, taints=(), unschedulable=True):
    annotations = {stale.CORDON: cordon} if isinstance(cordon, str) else {}
    if isinstance(cordon, dict):
        annotations[stale.CORDON] = json.dumps(cordon)
    if held is not None:
        annotations[stale.HELD_BY] = json.dumps(held)
    about = {
        "name": "a",
        "uid": "u",
        "resourceVersion": "5",
        "annotations": annotations,
        "labels": labels or {},
    }
    return {"metadata": about, "spec": {"unschedulable": unschedulable, "taints": list(taints)}}


def freed(**changes):
    return {"execution": 7, "reason": "freed by plan 3", "deadline": PAST, **changes}


def released(*nodes):
    return [one.body for one in stale.release_nodes(nodes, OVER)]


def test_our_cordon_goes_once_its_deadline_has_passed_guarded_by_uid_and_revision():
    (body,) = released(node(cordon=freed()))
    assert body["metadata"]["uid"] == "u"
    assert body["metadata"]["resourceVersion"] == "5"
    assert body["metadata"]["annotations"] == {stale.CORDON: None}
    assert body["spec"] == {"unschedulable": None}


@pytest.mark.parametrize(
    "left",
    [
        node(),
        node(cordon="no JSON"),
        node(cordon=freed(deadline=AHEAD)),
        node(cordon=freed(deadline="soon")),
        node(cordon=freed(deadline="2026-01-01T11:00:00")),
        node(cordon=freed(reason="relaid by plan 3")),
        node(cordon={"reason": "freed by plan 3", "deadline": PAST}),
        node(cordon=freed(), labels={stale.MIG_STATE: "pending"}),
        node(cordon=freed(), labels={stale.MIG_STATE: "failed"}),
        node(cordon=freed(), unschedulable=False),
        node(taints=[{"key": stale.HELD, "value": "v"}]),
        node(taints=[{"key": stale.HELD, "value": "v"}], held={"value": "other", "deadline": PAST}),
        node(taints=[{"key": stale.HELD, "value": "v"}], held={"value": "v", "deadline": AHEAD}),
    ],
)
def test_what_is_not_surely_ours_and_over_is_left_alone(left):
    assert released(left) == []


def test_our_taint_goes_and_others_stay():
    theirs = {"key": "example.com/theirs", "value": "v", "effect": "NoSchedule"}
    taints = [theirs, {"key": stale.HELD, "value": "v", "effect": "NoSchedule"}]
    (body,) = released(node(taints=taints, held={"value": "v", "deadline": PAST}, unschedulable=False))
    assert body["spec"] == {"taints": [theirs]}


def thing(name, *, deadline=PAST, labels=(stale.OWNED, stale.HOLD), on=""):
    about = {"name": name, "namespace": "gpu-defrag", "uid": name, "resourceVersion": "1"}
    about |= {"labels": dict.fromkeys(labels, "7-abc"), "annotations": {stale.DEADLINE: deadline}}
    return {"metadata": about, "spec": {"nodeName": on} if on else {}}


def test_stale_steerings_and_holds_go_and_nobody_elses():
    things = [
        thing("mine"),
        thing("theirs", labels=()),
        thing("later", deadline=AHEAD),
        thing("bound", on="a"),
    ]
    assert [one.path for one in stale.delete_holds(things, OVER)] == [
        "/api/v1/namespaces/gpu-defrag/pods/mine"
    ]
    steerings = list(stale.delete_steerings(things[:3], "/s", OVER))
    assert [(one.method, one.path) for one in steerings] == [("DELETE", "/s/mine")]
    assert steerings[0].body["preconditions"] == {"uid": "mine", "resourceVersion": "1"}


@pytest.mark.parametrize("arguments", [["--server", "http://x"], ["--server", "x:y:z"], ["--every", "0"], []])
def test_bad_settings_are_one_line_and_exit_status_2(arguments):
    command = [sys.executable, "-m", "apps.gate_watchdog", "--once", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("gate watchdog: ")
