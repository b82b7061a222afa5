"""The pods of a proof, what the extender says of them, and what of that their scheduler wrote. Pure.

For each resource two pods, which ask for none of it (quantity 0: a scheduler asks an extender by the names of
the resources alone). About the first the extender says that no node may take it; the second it leaves
without an answer. A scheduler that goes on alone then (`ignorable: true`) binds the second: it takes no
device, no processor and no memory, its image is one that no kubelet may pull, and it is deleted at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from apps.executions import names
from apps.executions.sightings import node_of

Json = dict[str, Any]
PRIORITY = 0
"""Of the class of the pods, which never preempts."""
LONGEST_SECONDS = 120
"""After so long on a node the kubelet ends such a pod by itself, should nobody be left to delete it."""


class Part(StrEnum):
    ASKS = "asks"
    WAITS = "waits"


class Seen(StrEnum):
    """Of one pod. QUIET: its scheduler has written nothing of ours yet."""

    QUIET = "quiet"
    TOLD = "told"
    BOUND = "bound"


@dataclass(frozen=True, slots=True)
class Sighting:
    """words: what the scheduler last said of the pod, in the cluster's words. node: where it is bound."""

    seen: Seen
    words: str = ""
    node: str = ""


def owned_by_proof(proof_id: int) -> str:
    """Value of our label on its pods."""
    return f"proof-{proof_id}"


def names_of_pods(proof_id: int, resources: Iterable[str], part: Part) -> dict[str, str]:
    """Name of each resource's pod."""
    return {
        resource: f"{owned_by_proof(proof_id)}-{part}-{number}" for number, resource in enumerate(resources)
    }


def refusing_words(token: str) -> str:
    """What the extender says of every node."""
    return f"refused by the extender for proof {token}"


def silent_words(token: str) -> str:
    """What stands in the error instead of an answer: a scheduler takes both for the same."""
    return f"no answer of the extender, for proof {token}"


def probe_pod(
    name: str, part: Part, resource: str, *, token: str, owned: str, namespace: str, deadline: str
) -> Json:
    none = {resource: "0"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            # By the second label the watchdog deletes it past its deadline, as it does a paper hold.
            "labels": {names.OWNED: owned, names.HOLD: part.value},
            "annotations": {names.PROOF: f"{token}.{part}", names.DEADLINE: deadline},
        },
        "spec": {
            "priorityClassName": names.priority_class_name(PRIORITY),
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LONGEST_SECONDS,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}],
            "containers": [
                {
                    "name": "proof",
                    "image": "paper-proof",
                    "imagePullPolicy": "Never",
                    "resources": {"requests": none, "limits": none},
                }
            ],
        },
    }


def look_at_probe(pod: Json | None, part: Part, token: str) -> Sighting:
    """What its scheduler did with the extender's answer."""
    if pod is None:
        return Sighting(Seen.QUIET, "the pod is gone")
    if node_of(pod):
        return Sighting(Seen.BOUND, node=node_of(pod))
    conditions = (pod.get("status") or {}).get("conditions") or []
    told: Json = next((one for one in conditions if one.get("type") == "PodScheduled"), {})
    words = str(told.get("message") or "")[:500]
    wanted = refusing_words(token) if part == Part.ASKS else silent_words(token)
    return Sighting(Seen.TOLD if wanted in words else Seen.QUIET, words)
