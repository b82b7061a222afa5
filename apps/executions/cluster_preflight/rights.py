"""Which of the rights that deploy/rbac names the console's credential has, and what their lack means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings

from apps.executions.cluster_preflight.lines import Line, Standing
from apps.kube.gateway import Kind

SUBJECT = "Rights"
PURPOSES = {
    "reader.yaml": (
        "seeing the cluster",
        "What cannot be read is not judged: pods that it concerns are left alone.",
    ),
    "executor.yaml": (
        "carrying plans out",
        "Everything is planned only: no plan can be started.",
    ),
    "mig.yaml": ("cutting GPUs anew by MIG", "MIG layouts are planned only."),
    "fallback.yaml": (
        "asking for less GPU memory",
        "That waiting pods ask for less is planned only.",
    ),
    "trust.yaml": (
        "reading the settings of other schedulers, and CronJobs",
        "What these do to a workload that loses a pod is not known; their pods are planned only anyway.",
    ),
    "steering.yaml": (
        "steering by the standing policy",
        "Replacements are gated by our webhook instead, where it can be reached; the line Steering says so.",
    ),
    "holdings.yaml": (
        "finding everything of ours in the cluster",
        "Steering configurations that were left behind are neither shown nor released.",
    ),
    "extender.yaml": (
        "binding pods as the scheduler's extender",
        "The extender cannot bind: the scheduler does, as it does wherever nobody asked for that.",
    ),
    "obedience.yaml": (
        "proving that the scheduler obeys the extender",
        "Holds stay on paper, as they do wherever nobody asked for that.",
    ),
}
OPTIONAL = (
    *("mig.yaml", "fallback.yaml", "trust.yaml", "steering.yaml", "holdings.yaml", "extender.yaml"),
    "obedience.yaml",
)
TOLD_AT_MOST = 12
EVICTION = "pods/eviction"
USUAL_NAMESPACE = "gpu-defrag"


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource. namespace, name: "" where it is granted for all."""

    file: str
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    @property
    def words(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        of_one = f" {self.name}" if self.name else ""
        return f"{self.verb} {what}{of_one}{f' in {self.namespace}' if self.namespace else ''}"

    @property
    def kind(self) -> Kind:
        return Kind(self.group, "*", self.resource.partition("/")[0], bool(self.namespace))


def named_rights(folder: Path | None = None) -> list[Right]:
    """Those of the files of deploy/rbac, in their order; [] where the files are not there."""
    folder = folder or settings.BASE_DIR / "deploy" / "rbac"
    found: dict[Right, None] = {}
    for file in sorted(folder.glob("*.yaml"), key=lambda path: _order(path.name)):
        for document in yaml.safe_load_all(file.read_text()):
            if document and document.get("kind") in ("ClusterRole", "Role"):
                found.update(dict.fromkeys(_rights_of(file.name, document)))
    return list(found)


def _order(name: str) -> tuple[int, str]:
    known = list(PURPOSES)
    return (known.index(name) if name in known else len(known), name)


def _rights_of(file: str, role: dict[str, Any]) -> Iterator[Right]:
    namespace = _ours(role["metadata"].get("namespace", ""))
    for rule in role.get("rules", ()):
        for group in rule.get("apiGroups", ()):
            for resource in rule.get("resources", ()):
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or [""]:
                        yield Right(file, verb, group, resource, namespace, _ours(name))


def _ours(name: str) -> str:
    """The files name the usual namespace of the console's."""
    return settings.STEERING_NAMESPACE if name == USUAL_NAMESPACE else name


def find_missing(rights: Sequence[Right], may: Callable[..., bool]) -> list[Right]:
    """may: as `Gateway.may`. Raises KubeError."""
    return [
        right
        for right in rights
        if not may(
            right.verb,
            right.kind,
            namespace=right.namespace,
            subresource=right.resource.partition("/")[2],
            name=right.name,
        )
    ]


def judge_rights(rights: Sequence[Right], missing: Sequence[Right]) -> Iterator[Line]:
    if not rights:
        yield Line(
            SUBJECT, Standing.UNKNOWN, "The files of deploy/rbac are not part of this installation.",
            "Which rights are missing is not known before a start is tried.",
            "Install the console with its folder deploy/rbac.",
        )  # fmt: skip
    for file in dict.fromkeys(right.file for right in rights):
        wanted = [right for right in rights if right.file == file]
        lacking = [right for right in missing if right.file == file]
        purpose, means = PURPOSES.get(file, (file, "What it is for is planned only."))
        if not lacking:
            there = f"All {len(wanted)} rights" if len(wanted) > 1 else "The one right"
            verb = "are" if len(wanted) > 1 else "is"
            yield Line(SUBJECT, Standing.OK, f"{there} for {purpose} {verb} there ({file}).")
            continue
        listed = ", ".join(right.words for right in lacking[:TOLD_AT_MOST])
        more = f" and {len(lacking) - TOLD_AT_MOST} more" if len(lacking) > TOLD_AT_MOST else ""
        yield Line(
            SUBJECT,
            Standing.TOLD if file in OPTIONAL else Standing.PLANNED_ONLY,
            f"Of {len(wanted)} rights for {purpose} {len(lacking)} are missing: {listed}{more}.",
            means,
            f"kubectl apply -f deploy/rbac/{file}",
        )


def may_evict(missing: Sequence[Right]) -> bool:
    """Whether more than reading is granted: without this one nothing can be carried out at all."""
    return not any((right.verb, right.resource) == ("create", EVICTION) for right in missing)
