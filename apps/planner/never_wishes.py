"""What a pod wishes of the node itself: a model, labels, a place for its volume, taints that it bears.

Each check rules nodes out and says why where it leaves none. Not in here: devices and the host (never).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from apps.planner.inventory import Node, Pod, Requirement
from apps.planner.naming import shown_model
from apps.planner.resources import Demand
from apps.planner.selectors import matches_labels, node_matches_terms, untolerated_taints
from apps.planner.workload import names_of_model, spec_of

PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that Kubernetes itself puts on a node for its state, and takes off again."""
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Never:
    """code: as of what waits. sentence: what is asked, and what there is."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Question:
    """One pod's shape against nodes that are left; `is_fewer`: others were ruled out before."""

    pod: Pod
    demand: Demand
    nodes: Sequence[Node]
    is_fewer: bool

    @property
    def among(self) -> str:
        return " that it may use" if self.is_fewer else ""


def check_model(question: Question) -> tuple[list[Node], Never | None]:
    wanted = spec_of(question.pod)
    left = [node for node in question.nodes if wanted.allows_any(names_of_model(node))]
    if left or not wanted.models:
        return left, None
    models = sorted({shown_model(node.model) for node in question.nodes if node.model})
    there = f"the cluster has {name_some(models)}" if models else "no node tells a model"
    asked = " or ".join(shown_model(model) for model in wanted.models.split("|"))
    return left, Never("no-such-model", f"No node has the GPU model {asked} that it asks for; {there}.")


def check_selector(question: Question) -> tuple[list[Node], Never | None]:
    wanted = question.pod.node_selector
    left = [node for node in question.nodes if matches_labels(wanted, node.labels)]
    if left:
        return left, None
    lone = [
        f"{key}={value}"
        for key, value in sorted(wanted.items())
        if all(node.labels.get(key) != value for node in question.nodes)
    ]
    if lone:
        said = f"No node{question.among} has the label {name_some(lone)} that its selector asks for."
    else:
        labels = name_some([f"{key}={value}" for key, value in sorted(wanted.items())])
        said = f"No node{question.among} has all the labels that its selector asks for: {labels}."
    return left, Never("node-selector", said)


def check_affinity(question: Question) -> tuple[list[Node], Never | None]:
    left = [node for node in question.nodes if node_matches_terms(node, question.pod.node_terms)]
    said = f"No node{question.among} meets its required node affinity."
    return left, None if left else Never("node-selector", said)


def check_volumes(question: Question) -> tuple[list[Node], Never | None]:
    left = list(question.nodes)
    for terms in question.pod.volume_terms:
        left = [node for node in left if node_matches_terms(node, terms)]
        if not left:
            where = name_some(
                [_say_requirement(part) for term in terms for part in (*term.labels, *term.fields)]
            )
            said = f"No node{question.among} is where its volume is bound to: {where or 'nowhere'}."
            return left, Never("volume", said)
    return left, None


def _say_requirement(part: Requirement) -> str:
    return f"{part.key} {part.operator.lower()} {' or '.join(part.values)}".rstrip()


def check_taints(question: Question) -> tuple[list[Node], Never | None]:
    lasting = {
        node.name: [
            taint
            for taint in untolerated_taints(question.pod, node.taints)
            if not taint.key.startswith(PASSING_TAINTS)
        ]
        for node in question.nodes
    }
    left = [node for node in question.nodes if not lasting[node.name]]
    if left:
        return left, None
    words = Counter(
        f"{one.key}={one.value}:{one.effect}" if one.value else f"{one.key}:{one.effect}"
        for taints in lasting.values()
        for one in taints[:1]
    )
    named = name_some([word for word, _ in words.most_common()])
    return left, Never("taint", f"Every node{question.among} has a taint that it does not tolerate: {named}.")


def name_some(words: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    return ", ".join(words[:MOST_NAMED]) + more
