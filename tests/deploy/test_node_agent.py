"""deploy/agent and its image: valid manifests, the rights that it uses, the files that it needs."""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from apps.node_agent.holders import HOLDERS
from apps.node_agent.matrix import MATRIX
from apps.simulator.api_server.evaluation import EvaluationError, truth
from apps.simulator.api_server.expressions import compile_expression

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "agent"
NAMES = frozenset(("object", "oldObject", "request"))
ACCOUNT = "system:serviceaccount:gpu-defrag-agent:node-agent"
ON_NODE = "authentication.kubernetes.io/node-name"


def documents():
    return [
        found
        for path in sorted(FOLDER.glob("*.yaml"))
        for found in yaml.safe_load_all(path.read_text())
        if found
    ]


def only(kind):
    return next(found for found in documents() if found["kind"] == kind)


@pytest.mark.parametrize("document", documents(), ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_each_manifest_is_valid(document):
    kubernetes_validate.validate(document, "1.30", strict=True)


def test_everything_speaks_of_the_same_account():
    account, binding = only("ServiceAccount")["metadata"], only("ClusterRoleBinding")
    pod = only("DaemonSet")["spec"]["template"]["spec"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]
    assert binding["roleRef"]["name"] == only("ClusterRole")["metadata"]["name"]
    assert pod["serviceAccountName"] == account["name"]
    assert only("DaemonSet")["metadata"]["namespace"] == account["namespace"]
    assert ACCOUNT in only("ValidatingAdmissionPolicy")["spec"]["matchConditions"][0]["expression"]
    assert f"system:serviceaccount:{account['namespace']}:{account['name']}" == ACCOUNT


def test_its_rights_are_the_three_that_it_uses():
    granted = {
        (verb, resource)
        for rule in only("ClusterRole")["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == {("get", "nodes"), ("patch", "nodes"), ("list", "pods")}


def test_it_runs_without_privileges_and_sees_one_folder_of_the_node_read_only():
    pod = only("DaemonSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    security = container["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert not {"privileged", "hostPID", "hostNetwork", "hostIPC"} & {*security, *pod}
    assert [one["hostPath"]["path"] for one in pod["volumes"]] == ["/var/lib/kubelet/pod-resources"]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])


NODE = {
    "metadata": {
        "name": "gpu-7",
        "labels": {"pool": "a"},
        "annotations": {"owner": "team-metal", MATRIX: "old"},
    },
    "spec": {"unschedulable": False},
}


def write(change, *, node="gpu-7", on="gpu-7", operation="UPDATE", subresource=""):
    """Whether the policy lets the agent on node `on` make this change; `change` edits a copy of the Node."""
    after = copy.deepcopy(NODE)
    change(after)
    extra = {ON_NODE: [on]} if on else {"scopes": ["other"]}
    scope = {
        "object": after,
        "oldObject": NODE,
        "request": {
            "name": node,
            "operation": operation,
            **({"subResource": subresource} if subresource else {}),  # an API server leaves out what is empty
            "userInfo": {"username": ACCOUNT, "extra": extra},
        },
    }
    policy = only("ValidatingAdmissionPolicy")["spec"]
    assert all(is_true(one["expression"], scope) for one in policy["matchConditions"])
    return all(is_true(one["expression"], scope) for one in policy["validations"])


def is_true(expression, scope):
    try:
        return truth(compile_expression(expression, NAMES)(scope))
    except EvaluationError:
        return False


def annotate(**changes):
    def change(node):
        node["metadata"]["annotations"] |= {name.replace("__", "/"): text for name, text in changes.items()}

    return change


def both(node):
    node["metadata"]["annotations"] |= {MATRIX: "new", HOLDERS: "new"}


def test_the_policy_lets_the_agent_write_its_two_annotations_on_its_own_node():
    assert write(both)
    assert write(lambda node: None)


@pytest.mark.parametrize(
    "refused",
    [
        lambda: write(both, node="gpu-8"),
        lambda: write(both, on=""),
        lambda: write(both, operation="CREATE"),
        lambda: write(both, operation="DELETE"),
        lambda: write(both, subresource="status"),
        lambda: write(annotate(owner="me")),
        lambda: write(annotate(more="mine")),
        lambda: write(lambda node: node["metadata"]["annotations"].pop("owner")),
        lambda: write(lambda node: node["metadata"].pop("annotations")),
        lambda: write(lambda node: node["metadata"]["labels"].update(pool="b")),
        lambda: write(lambda node: node["metadata"].pop("labels")),
        lambda: write(lambda node: node["metadata"].update(finalizers=["mine/stay"])),
        lambda: write(lambda node: node["spec"].update(unschedulable=True)),
        lambda: write(lambda node: node["spec"].update(taints=[{"key": "a", "effect": "NoExecute"}])),
    ],
)
def test_the_policy_refuses_everything_else(refused):
    assert not refused()


def stage():
    """The lines of the Dockerfile's stage."""
    text = (ROOT / "Dockerfile").read_text().split(" AS node-agent\n", 1)[1]
    return text.split("\nFROM ", 1)[0].replace("\\\n", " ").splitlines()


LOOK = """
import json, runpy, sys
sys.argv = ["agent", "--help"]
try:
    runpy.run_module("apps.node_agent", run_name="__main__")
except SystemExit:
    pass
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names)))
"""


def test_the_image_holds_all_files_and_packages_that_the_agent_needs(tmp_path):
    copies = [line.split()[1:] for line in stage() if line.startswith("COPY ") and "--from" not in line]
    for source, target in copies:
        (tmp_path / target).parent.mkdir(parents=True, exist_ok=True)
        copy_one = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
        copy_one(ROOT / source, tmp_path / target)
    assert 'CMD ["python", "-m", "apps.node_agent"]' in stage()
    environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LOOK], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    loaded = {name for name in json.loads(done.stdout.splitlines()[-1]) if not name.startswith("_")}
    assert loaded <= {"apps", "grpc", "google", "pynvml", "typing_extensions", "cython_runtime"}
    locked = re.findall(r"(?m)^([a-z0-9.-]+)==", (ROOT / "requirements/agent.lock").read_text())
    assert set(locked) == {"grpcio", "nvidia-ml-py", "protobuf", "typing-extensions"}
