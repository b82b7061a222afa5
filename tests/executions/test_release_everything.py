"""All of ours goes, by the command and by kubectl alone; what people did stays."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from apps.audit.models import AuditEntry
from apps.executions.models import Execution
from apps.executions.releasing import is_mid_mig
from apps.executions.states import TERMINAL, StepKind
from tests.cluster_fixtures import wait_until
from tests.executions import things
from tests.executions.test_stories import carry_until, has_sent

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).parents[2]
GATE = "defrag.gpu.internal/steer"


def strand(stage):
    """What a worker leaves that is killed before an eviction, a taint, a gate of another life and a human's
    cordon. Gives the human's node."""
    execution, _ = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.STEER, "create_webhook"))
    ask = stage.simulated.ask
    nodes = ask("GET", "/api/v1/nodes")["items"]
    free = [n["metadata"]["name"] for n in nodes if not n["spec"].get("unschedulable")]
    human, tainted = free[0], free[1]
    ask("PATCH", f"/api/v1/nodes/{human}", {"spec": {"unschedulable": True}})
    owned = next(n for n in nodes if "defrag.gpu.internal/owned" in n["metadata"]["labels"])
    label = owned["metadata"]["labels"]["defrag.gpu.internal/owned"]
    number, mark = label.split("-")
    note = json.dumps({"execution": int(number), "mark": mark, "value": "cafe"})
    about = {
        "annotations": {"defrag.gpu.internal/held-by": note},
        "labels": {"defrag.gpu.internal/owned": label},
    }
    taint = {"key": "defrag.gpu.internal/held", "value": "cafe", "effect": "NoSchedule"}
    ask("PATCH", f"/api/v1/nodes/{tainted}", {"metadata": about, "spec": {"taints": [taint]}})
    gated = {"name": "waits", "annotations": {"defrag.gpu.internal/migration": f"steer-{label}-1"}}
    spec = {"schedulingGates": [{"name": GATE}], "containers": [{"name": "main", "image": "x"}]}
    ask("POST", "/api/v1/namespaces/work/pods", {"metadata": gated, "spec": spec})
    kinds = {trace.partition(" ")[0] for trace in stage.traces()}
    assert kinds == {"hold", "webhook", "cordon", "taint", "gate"}
    return execution, human


def is_clean(stage, human):
    assert stage.traces() == []
    nodes = stage.simulated.ask("GET", "/api/v1/nodes")["items"]
    assert [n["metadata"]["name"] for n in nodes if n["spec"].get("unschedulable")] == [human]
    assert not [n for n in nodes if "defrag.gpu.internal/owned" in n["metadata"]["labels"]]
    pod = stage.simulated.ask("GET", "/api/v1/namespaces/work/pods/waits")
    assert "kubernetes.io/hostname" not in (pod["spec"].get("nodeSelector") or {})


NOWHERE = {"containers": [{"name": "main", "image": "x"}], "nodeSelector": {"nowhere": "true"}}


def test_the_command_takes_all_of_ours_and_nothing_else(stage, capsys):
    execution, human = strand(stage)
    held = stage.simulated.ask("GET", "/api/v1/namespaces/gpu-defrag/pods")["items"][0]
    forged = {"metadata": {"name": "notebook", "labels": held["metadata"]["labels"]}, "spec": NOWHERE}
    stage.simulated.ask("POST", "/api/v1/namespaces/work/pods", forged)
    before = stage.traces()
    with pytest.raises(CommandError, match="executions are open on sim") as refused:
        call_command("release_everything", "sim")
    assert refused.value.returncode == 2
    call_command("release_everything", "sim", "--dry-run", "--json")
    promised = json.loads(capsys.readouterr().out)["released"]
    assert len(promised) == len(before)
    assert stage.traces() == before
    call_command("release_everything", "sim", "--stop-executions", "--json")
    told = json.loads(capsys.readouterr().out)
    execution.refresh_from_db()
    assert execution.state in TERMINAL, stage.told(execution)
    somebodys = stage.simulated.ask("GET", "/api/v1/namespaces/work/pods/notebook")
    assert "deletionTimestamp" not in somebodys["metadata"]
    is_clean(stage, human)
    audited = AuditEntry.objects.filter(action="cluster.released")
    assert [row.detail["what"] for row in audited.order_by("id")] == told["released"]
    assert stage.evicted() == []
    call_command("release_everything", "sim", "--json")
    assert json.loads(capsys.readouterr().out)["released"] == []


def test_what_another_database_made_goes_only_by_name(stage, capsys):
    execution, human = strand(stage)
    Execution.objects.filter(pk=execution.pk).update(state="cancelled", created_at="2020-01-01T00:00:00Z")
    before = stage.traces()
    call_command("release_everything", "sim", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["released"] == []
    assert {one["why"] for one in told["left"]} == {
        "this console's database does not know it: use --of-others"
    }
    assert stage.traces() == before
    call_command("release_everything", "sim", "--of-others")
    is_clean(stage, human)


def test_a_node_between_two_layouts_is_told_apart():
    assert not is_mid_mig(things.node())
    assert is_mid_mig({"metadata": {"labels": {"nvidia.com/mig.config": "all-1g.10gb"}}})
    done = {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": "success"}
    assert not is_mid_mig({"metadata": {"labels": done}})


def test_kubectl_alone_does_the_same_by_the_lines_of_the_page(stage, tmp_path):
    _, human = strand(stage)
    page = (ROOT / "docs" / "release-everything.md").read_text()
    (lines,) = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    config = tmp_path / "kubeconfig"
    config.write_text(stage.simulated.kubeconfig)
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    told = subprocess.run(
        ["bash", "-c", lines],
        env={"PATH": tools, "KUBECONFIG": str(config), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "error" not in told.stderr.lower(), told.stderr
    wait_until(lambda: not stage.traces(), seconds=10, what="the hold has left")
    is_clean(stage, human)
