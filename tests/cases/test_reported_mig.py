"""Reports about MIG: changes that hung or were refused, and instances that were not there."""

from __future__ import annotations

import io
import json

from django.core.management import call_command

from apps.planner.mig.catalogue import find_model
from apps.planner.mig.placing import place_counts, why_unplaceable
from apps.planner.mig.reaching import why_not_now
from tests.cases.reading import HOLDERS, MATRIX, holders, ledger, matrix, read
from tests.kube.objects import node, pod

H100 = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": "1",
    "nvidia.com/mig.strategy": "mixed",
}
ONE_SMALL = {"nvidia.com/mig-1g.10gb": "1"}


def user(name, asked=ONE_SMALL, **changes):
    spec = {"containers": [{"name": "main", "resources": {"requests": asked, "limits": asked}}]}
    return pod(name, gpus=0, on="node-a", spec=spec, **changes)


def cut_node(*, annotations=None, **offers):
    amounts = {f"nvidia.com/mig-{name[1:].replace('_', '.')}": str(number) for name, number in offers.items()}
    return node(
        gpus=0, labels=H100, capacity={"nvidia.com/gpu": "0", **amounts}, annotations=annotations or {}
    )


def test_one_more_instance_is_not_cut_while_another_is_in_use_and_its_user_is_named():
    busy = read(cut_node(p1g_10gb=4), user("trainer"))
    assert why_not_now(busy.nodes["node-a"], busy.pods_on("node-a")) == (
        "1g.10gb instance in use by team-a/trainer."
    )
    idle = read(cut_node(p1g_10gb=4))
    assert why_not_now(idle.nodes["node-a"], idle.pods_on("node-a")) == ""


LISTING = """\
$ nvidia-smi mig -lgi
+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   0  MIG 1g.18gb         19        7          0:1     |
|   0  MIG 1g.18gb         19        9          2:1     |
|   0  MIG 2g.35gb         14        5          4:2     |
+-------------------------------------------------------+
"""


def read_mig(text, tmp_path, *arguments):
    path, printed = tmp_path / "listing.txt", io.StringIO()
    path.write_text(text)
    try:
        call_command("read_mig", str(path), *arguments, "--json", "--model", "NVIDIA-H200", stdout=printed)
        code = 0
    except SystemExit as ended:
        code = ended.code
    return json.loads(printed.getvalue()), code


def test_free_slices_that_lie_apart_fit_no_large_instance_and_the_way_there_is_told(tmp_path):
    answer, code = read_mig(LISTING, tmp_path, "--want", "1g.18gb=2,2g.35gb=1,3g.71gb=1", "--in-use", "7,5")
    assert answer["free"] == 4
    assert (answer["fits"]["0"]["3g.71gb"], answer["fits"]["0"]["1g.18gb"]) == (0, 3)
    assert (code, answer["ways"]["0"]["reachable"]) == (1, False)
    assert "2g.35gb at 4 would have to be cut anew elsewhere" in answer["ways"]["0"]["why"]
    answer, code = read_mig(LISTING, tmp_path, "--want", "1g.18gb=2,2g.35gb=1,3g.71gb=1", "--in-use", "7,9")
    assert (code, answer["ways"]["0"]["reachable"]) == (1, False)  # slices 0 and 2 leave no place for the 2g
    answer, code = read_mig(LISTING, tmp_path, "--want", "1g.18gb=2,2g.35gb=1,3g.71gb=1", "--in-use", "7")
    assert (code, answer["ways"]["0"]["reachable"]) == (0, True)
    assert answer["ways"]["0"]["by_clearing"] is False
    assert {"profile": "3g.71gb", "start": 4} in answer["ways"]["0"]["created"]


def test_instances_that_a_reboot_took_are_held_by_nobody_and_their_pod_is_named():
    told = {MATRIX: matrix("GPU-1", mig={}), HOLDERS: holders(MIG_1=[("uid-lost", "lost")])}
    guest = user("lost", owner=("Job", "train"))
    found = ledger(read(cut_node(annotations=told, p1g_10gb=0), guest))
    assert [row.all_takers for row in found.devices] == [()]
    warnings = read(cut_node(annotations=told, p1g_10gb=0), guest).nodes["node-a"].warnings
    assert {taker.pod for taker in found.strays} == {"team-a/lost"} or any("lost" in one for one in warnings)


def test_pods_that_the_kubelet_refused_hold_no_instance():
    refused = user("refused", status={"phase": "Failed", "reason": "UnexpectedAdmissionError"})
    found = ledger(read(cut_node(p1g_10gb=3), refused, user("runs")))
    assert {one.pod: dict(one.profiles) for one in found.unlocated} == {"team-a/runs": {"1g.10gb": 1}}


def test_a_large_and_a_middle_instance_fit_together_and_where_they_start_is_known():
    model = find_model("NVIDIA-H100-80GB-HBM3")
    wanted = {"4g.40gb": 1, "3g.40gb": 1}
    assert why_unplaceable(model, wanted) == ""
    assert {cut.profile: cut.start for cut in place_counts(model, wanted)} == {"4g.40gb": 0, "3g.40gb": 4}
    assert why_unplaceable(model, {"4g.40gb": 1, "3g.40gb": 2}) != ""
