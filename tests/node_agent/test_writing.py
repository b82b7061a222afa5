"""When the agent writes, what it may write, and what it does when it cannot."""

import json
import os
import signal
import threading

import pynvml
import pytest

from apps.node_agent.__main__ import main
from apps.node_agent.api_server import ApiError
from tests.node_agent.kubelet import container, devices, pod
from tests.node_agent.machine import UUIDS, put_account


def test_it_writes_what_changed_and_otherwise_every_five_minutes(machine):
    assert machine.agent.step()
    first = machine.annotation("matrix")["observed_at"]
    machine.pass_time(200)
    assert not machine.agent.step()
    assert machine.annotation("matrix")["observed_at"] == first
    machine.add_pod("train")
    machine.give(pod("train", container("main", devices("nvidia.com/gpu", UUIDS[0]))))
    assert machine.agent.step()
    machine.pass_time(299)
    assert not machine.agent.step()
    machine.pass_time(1)
    assert machine.agent.step()
    assert machine.annotation("matrix")["observed_at"] == "2026-03-01T08:08:20Z"
    assert len(machine.patches()) == 3


def test_it_patches_two_annotations_of_its_own_node_by_uid_and_asks_for_nothing_else(machine):
    machine.agent.step()
    assert machine.node()["metadata"]["annotations"]["owner"] == "team-metal"
    asked = {(one.method, one.path) for one in machine.api.requests()}
    assert asked == {
        ("GET", "/api/v1/nodes/node-a"),
        ("GET", "/api/v1/pods"),
        ("PATCH", "/api/v1/nodes/node-a"),
    }
    lists = machine.api.requests("GET", "/api/v1/pods")
    assert all("spec.nodeName" in str(one.query) for one in lists)


def test_a_node_made_anew_under_the_same_name_is_not_written_as_the_old_one(machine):
    with pytest.raises(ApiError, match="422.*made anew"):
        machine.agent.api.patch_annotations("uid-of-another", {"topology.gpu.internal/matrix": "{}"})
    assert machine.annotation("matrix") is None


def test_a_pod_of_another_node_is_nobody_here(machine):
    machine.add_pod("elsewhere")
    machine.api.ask("DELETE", "/api/v1/namespaces/team-a/pods/elsewhere", {"gracePeriodSeconds": 0})
    machine.add_pod("elsewhere", spec={"nodeName": "node-b"})
    assert machine.agent.api.list_pods() == []


def test_pods_come_in_pages(machine, monkeypatch):
    monkeypatch.setattr("apps.node_agent.api_server.PAGE", 2)
    for number in range(5):
        machine.add_pod(f"pod-{number}")
    assert len({one.uid for one in machine.agent.api.list_pods()}) == 5


def test_what_would_make_the_annotations_too_large_is_not_written_and_said(machine, caplog):
    machine.api.ask(
        "PATCH", "/api/v1/nodes/node-a", {"metadata": {"annotations": {"notes": "x" * (256 * 1024 - 2500)}}}
    )
    for number in range(20):
        machine.add_pod(f"pod-{number}")
    machine.give(
        *[pod(f"pod-{n}", container("main", devices("nvidia.com/gpu", UUIDS[n % 4]))) for n in range(20)]
    )
    machine.agent.step()
    assert machine.annotation("holders") is None
    assert len(machine.annotation("matrix")["gpus"]) == 4
    assert "topology.gpu.internal/holders is not written" in caplog.text


def test_a_refusal_is_said_with_what_to_do_and_tried_again(machine, caplog):
    machine.api.fault(action="status", match={"method": "PATCH"}, times=1)
    stop = Stop(after=2)
    machine.agent.run(stop)
    assert "PATCH /api/v1/nodes/node-a is answered 500" in caplog.text
    assert machine.annotation("matrix") is not None
    assert 48 <= stop.pauses[0] <= 72
    assert 24 <= stop.pauses[1] <= 36


def test_without_the_right_it_says_what_to_apply(machine):
    put_account(machine.folder / "account", machine.api, token="nobody-token")
    with pytest.raises(ApiError, match="403.*deploy/agent/account.yaml"):
        machine.agent.step()


def test_a_problem_is_said_once_until_it_went_away(machine, caplog):
    machine.say_topo("No devices were found\n", 6)
    for _ in range(3):
        machine.agent.step()
    assert caplog.text.count("links are NVML's") == 1


def test_once_print_shows_both_and_writes_nothing(machine, capsys):
    code = main(["--once", "--print", *places(machine)], environment(machine))
    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert set(found) == {"topology.gpu.internal/matrix", "topology.gpu.internal/holders"}
    assert [gpu["uuid"] for gpu in found["topology.gpu.internal/matrix"]["gpus"]] == UUIDS
    assert machine.patches() == []


def test_once_writes_and_ends(machine):
    assert main(["--once", *places(machine)], environment(machine)) == 0
    assert machine.annotation("matrix")["source"] == "nvidia-smi"


@pytest.mark.parametrize(
    ("missing", "arguments", "said"),
    [
        ("NODE_NAME", [], "NODE_NAME is no name of a node"),
        ("KUBERNETES_SERVICE_HOST", [], "run it in a pod"),
        ("", ["--every", "0"], "--every is at least 1 second"),
        ("", ["--nvidia-smi", "nvidia-smi"], "--nvidia-smi is an absolute path"),
    ],
)
def test_bad_settings_are_one_line_and_exit_2(machine, capsys, missing, arguments, said):
    given = {name: value for name, value in environment(machine).items() if name != missing}
    assert main(["--once", *places(machine), *arguments], given) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_machine_without_the_library_says_so_and_exits_1(machine, monkeypatch, capsys):
    monkeypatch.setattr(machine.library, "nvmlInitWithFlags", lambda _: pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    assert main(["--once", *places(machine)], environment(machine)) == 1
    assert "NVML cannot be opened: NVML Shared Library Not Found" in capsys.readouterr().err


def test_told_to_stop_it_finishes_its_look_and_ends_well(machine):
    machine.kubelet.before_answer = lambda: os.kill(os.getpid(), signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        assert main(places(machine), environment(machine)) == 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert len(machine.patches()) == 1


def places(machine):
    folder = machine.folder
    return [
        *("--socket", str(folder / "kubelet.sock"), "--nvidia-smi", str(folder / "nvidia-smi")),
        *("--sys", str(folder / "sys"), "--account", str(folder / "account")),
    ]


def environment(machine):
    account = machine.agent.api.account
    return {
        "NODE_NAME": "node-a",
        "KUBERNETES_SERVICE_HOST": account.host,
        "KUBERNETES_SERVICE_PORT": str(account.port),
    }


class Stop(threading.Event):
    """Asks to stop after so many looks, and remembers the pauses instead of taking them."""

    def __init__(self, after):
        super().__init__()
        self.after, self.pauses = after, []

    def wait(self, timeout=None):
        self.pauses.append(timeout)
        if len(self.pauses) == self.after:
            self.set()
        return self.is_set()
