"""The columns of each kind as kubectl prints them, and what stands in their cells.

A name that ends with * is shown only by `-o wide`. Not here: the shape of a Table (tables).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from apps.simulator.api_server.ages import age_of, human
from apps.simulator.api_server.kinds import Kind
from apps.simulator.api_server.workload_rules import claim_state

Json = dict[str, Any]
Cells = Callable[[Json], list[Any]]
NONE = "<none>"
UNKNOWN = "<unknown>"
WORKLOAD = "Containers* Images* Selector*"


def age(obj: Json) -> str:
    return age_of(obj["metadata"].get("creationTimestamp"))


def name(obj: Json) -> str:
    return obj["metadata"]["name"]


def made(obj: Json) -> str:
    return obj["metadata"].get("creationTimestamp", "")


def _node(node: Json) -> list[Any]:
    status, spec = node.get("status", {}), node.get("spec", {})
    ready = next((c for c in status.get("conditions", ()) if c.get("type") == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if spec.get("unschedulable"):
        words.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    roles = [k.removeprefix(prefix) for k in node["metadata"].get("labels", {}) if k.startswith(prefix)]
    addresses = {a.get("type"): a.get("address") for a in status.get("addresses", ())}
    info = status.get("nodeInfo", {})
    return [
        name(node),
        ",".join(words),
        ",".join(roles) or NONE,
        age(node),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _pod(pod: Json) -> list[Any]:
    status, spec = pod.get("status", {}), pod.get("spec", {})
    containers = status.get("containerStatuses", ())
    return [
        name(pod),
        f"{sum(1 for c in containers if c.get('ready'))}/{len(spec.get('containers', ()))}",
        pod_word(pod),
        str(sum(c.get("restartCount", 0) for c in containers)),
        age(pod),
        status.get("podIP", NONE),
        spec.get("nodeName", NONE),
        status.get("nominatedNodeName", NONE),
        NONE,
    ]


def pod_word(pod: Json) -> str:
    """The column Status: a container's reason comes before the phase, an end before both."""
    status = pod.get("status", {})
    word = status.get("reason") or status.get("phase", "")
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            word = "SchedulingGated"
    for container in reversed(status.get("containerStatuses", ())):
        state = container.get("state", {})
        word = (state.get("waiting") or state.get("terminated") or {}).get("reason") or word
    terminal = status.get("phase") in ("Succeeded", "Failed")
    return "Terminating" if pod["metadata"].get("deletionTimestamp") and not terminal else word


def _budget(budget: Json) -> list[Any]:
    spec = budget.get("spec", {})
    minimum, maximum = spec.get("minAvailable", "N/A"), spec.get("maxUnavailable", "N/A")
    allowed = budget.get("status", {}).get("disruptionsAllowed", 0)
    return [name(budget), str(minimum), str(maximum), allowed, age(budget)]


def _template(workload: Json) -> tuple[str, str]:
    containers = workload.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
    names, images = ([c.get(field, "") for c in containers] for field in ("name", "image"))
    return ",".join(names), ",".join(images)


def selector_text(workload: Json) -> str:
    selector = workload.get("spec", {}).get("selector") or {}
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    return ",".join(parts) or NONE


def _deployment(workload: Json) -> list[Any]:
    status, wanted = workload.get("status", {}), workload.get("spec", {}).get("replicas", 1)
    counts = [status.get(field, 0) for field in ("updatedReplicas", "availableReplicas")]
    ready = f"{status.get('readyReplicas', 0)}/{wanted}"
    return [
        name(workload), ready, *counts, age(workload), *_template(workload), selector_text(workload),
    ]  # fmt: skip


def _replica_set(workload: Json) -> list[Any]:
    status, wanted = workload.get("status", {}), workload.get("spec", {}).get("replicas", 1)
    counts = [wanted, status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [name(workload), *counts, age(workload), *_template(workload), selector_text(workload)]


def _stateful_set(workload: Json) -> list[Any]:
    ready = workload.get("status", {}).get("readyReplicas", 0)
    wanted = workload.get("spec", {}).get("replicas", 1)
    return [name(workload), f"{ready}/{wanted}", age(workload), *_template(workload)]


def _daemon_set(workload: Json) -> list[Any]:
    status = workload.get("status", {})
    fields = (
        "desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled",
        "numberAvailable",
    )  # fmt: skip
    chosen = workload.get("spec", {}).get("template", {}).get("spec", {}).get("nodeSelector") or {}
    nodes = ",".join(f"{key}={value}" for key, value in sorted(chosen.items())) or NONE
    counts = [status.get(field, 0) for field in fields]
    return [
        name(workload), *counts, nodes, age(workload), *_template(workload), selector_text(workload),
    ]  # fmt: skip


def _job(job: Json) -> list[Any]:
    status, spec = job.get("status", {}), job.get("spec", {})
    held = [c["type"] for c in status.get("conditions", ()) if c.get("status") == "True"]
    word = "Suspended" if spec.get("suspend") else "Running"
    for condition, told in (("Complete", "Complete"), ("Failed", "Failed")):
        word = told if condition in held else word
    began, ended = status.get("startTime"), status.get("completionTime")
    lasted = ""
    if began and ended:
        moments = [datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (began, ended)]
        lasted = human((moments[1] - moments[0]).total_seconds())
    elif began:
        lasted = age_of(began)
    done = f"{status.get('succeeded', 0)}/{spec.get('completions', 1)}"
    return [name(job), word, done, lasted, age(job), *_template(job), selector_text(job)]


def _event(event: Json) -> list[Any]:
    moment = event.get("lastTimestamp") or event.get("eventTime")
    series = event.get("series") or {}
    about = event.get("involvedObject") or event.get("regarding") or {}
    source = (event.get("source") or {}).get("component") or event.get("reportingComponent", "")
    return [
        age_of(series.get("lastObservedTime") or moment),
        event.get("type", ""),
        event.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        source,
        (event.get("message") or event.get("note") or "").strip(),
        age_of(event.get("firstTimestamp") or event.get("eventTime")),
        series.get("count") or event.get("count") or 1,
        name(event),
    ]


def _quota(quota: Json) -> list[Any]:
    status = quota.get("status", {})
    hard, used = status.get("hard", {}), status.get("used", {})
    told = {key: f"{key}: {used.get(key, '0')}/{hard[key]}" for key in sorted(hard)}
    limits = [text for key, text in told.items() if key.startswith("limits.")]
    requests = [text for key, text in told.items() if not key.startswith("limits.")]
    return [name(quota), ", ".join(requests), ", ".join(limits), age(quota)]


def _binding(binding: Json) -> list[Any]:
    role, subjects = binding.get("roleRef") or {}, binding.get("subjects") or []
    names: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for each in subjects:
        shown = f"{each.get('namespace')}/{each['name']}" if each.get("namespace") else each["name"]
        names.setdefault(each["kind"], []).append(shown)
    who = [", ".join(names[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [name(binding), f"{role.get('kind')}/{role.get('name')}", age(binding), *who]


def _plain(obj: Json) -> list[Any]:
    return [name(obj), age(obj)]


def _dated(obj: Json) -> list[Any]:
    return [name(obj), made(obj)]


def _size(obj: Json) -> int:
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def _at(*steps: str, otherwise: Any = "") -> Callable[[Json], Any]:
    def read(obj: Json) -> Any:
        value: Any = obj
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        return otherwise if value is None else value

    return read


def _of(*readers: Callable[[Json], Any]) -> Cells:
    return lambda obj: [read(obj) for read in readers]


_ROLE, _BINDING = ("Name Created-At", _dated), ("Name Role Age Users* Groups* ServiceAccounts*", _binding)
_HOOKS = ("Name Webhooks Age", _of(name, lambda obj: len(obj.get("webhooks") or ()), age))
_EVENTS = (
    "Last-Seen Type Reason Object Subobject* Source* Message First-Seen* Count* Name*",
    _event,
)
# Words of a column are joined by - here, but for those that Kubernetes itself writes so.
_HYPHENS = frozenset(
    ("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime", "Up-to-date",
     "Global-Default")
)  # fmt: skip
COLUMNS: dict[str, tuple[str, Cells]] = {
    "nodes": (
        "Name Status Roles Age Version Internal-IP* External-IP* OS-Image* Kernel-Version* "
        "Container-Runtime*",
        _node,
    ),
    "pods": ("Name Ready Status Restarts Age IP* Node* Nominated-Node* Readiness-Gates*", _pod),
    "namespaces": ("Name Status Age", _of(name, _at("status", "phase"), age)),
    "events": _EVENTS,
    "events.events.k8s.io": _EVENTS,
    "configmaps": ("Name Data Age", _of(name, _size, age)),
    "secrets": ("Name Type Data Age", _of(name, _at("type"), _size, age)),
    "resourcequotas": ("Name Request Limit Age", _quota),
    "limitranges": ("Name Created-At", _dated),
    "leases.coordination.k8s.io": ("Name Holder Age", _of(name, _at("spec", "holderIdentity"), age)),
    "deployments.apps": (f"Name Ready Up-to-date Available Age {WORKLOAD}", _deployment),
    "replicasets.apps": (f"Name Desired Current Ready Age {WORKLOAD}", _replica_set),
    "statefulsets.apps": ("Name Ready Age Containers* Images*", _stateful_set),
    "daemonsets.apps": (
        f"Name Desired Current Ready Up-to-date Available Node-Selector Age {WORKLOAD}",
        _daemon_set,
    ),
    "jobs.batch": (f"Name Status Completions Duration Age {WORKLOAD}", _job),
    "poddisruptionbudgets.policy": (
        "Name Min-Available Max-Unavailable Allowed-Disruptions Age",
        _budget,
    ),
    "priorityclasses.scheduling.k8s.io": (
        "Name Value Global-Default Age PreemptionPolicy",
        _of(name, _at("value"), _at("globalDefault", otherwise=False), age, _at("preemptionPolicy")),
    ),
    "customresourcedefinitions.apiextensions.k8s.io": ("Name Created-At", _dated),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _HOOKS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _HOOKS,
    "roles.rbac.authorization.k8s.io": _ROLE,
    "clusterroles.rbac.authorization.k8s.io": _ROLE,
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "resourceclaims.resource.k8s.io": ("Name State Age", _of(name, claim_state, age)),
    "resourceslices.resource.k8s.io": (
        "Name Node Driver Pool Age",
        _of(name, _at("spec", "nodeName"), _at("spec", "driver"), _at("spec", "pool", "name"), age),
    ),
}


def columns_of(kind: Kind) -> tuple[list[tuple[str, bool]], Cells]:
    """(name, only wide) of each column, and how a row is made."""
    if kind.columns:
        shown = [("Name", False)]
        readers: list[Callable[[Json], Any]] = [name]
        for column in kind.columns:
            shown.append((column["name"], column.get("priority", 0) > 0))
            read = _at(*column["jsonPath"].strip(".").split("."))
            readers.append(age if column["jsonPath"] == ".metadata.creationTimestamp" else read)
        return shown, _of(*readers)
    text, cells = COLUMNS.get(kind.resource, ("Name Age", _plain))
    words = [(word.rstrip("*"), word.endswith("*")) for word in text.split()]
    return [(w if w in _HYPHENS else w.replace("-", " "), wide) for w, wide in words], cells
