"""What is claimed for the Kubernetes version of a cluster: only what was proved on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from apps.executions.cluster_preflight.lines import Line, Standing

SUBJECT = "Kubernetes version"
PROVED = (1, 36)
NOMINATION = (1, 35)
MATCH_CONDITIONS = (1, 30)
GATES = (1, 27)
NUMBERS = re.compile(r"v?([0-9]{1,3})\.([0-9]{1,3})")
PROBE = "Try one plan of one move on a pod that nobody minds before anything else."


NEWER = (
    "Newer than what was proved (1.36): nominations and admission policies may have changed, so landing is "
    "best effort."
)
NEARLY = "Everything that landing needs is there, but it was proved on 1.36 only: best effort."
BEFORE_NOMINATION = (
    "Nominations worked otherwise before 1.34 and 1.35, so a hold may be lost to a contender: best effort. "
    "MutatingAdmissionPolicies are not served; steering goes by the webhook."
)
GATES_LACK, CONDITIONS_LACK = "scheduling gates that pin a pod (1.27)", "webhook match conditions (1.30)"
UPGRADE = "Upgrade the cluster to 1.30 or later, best 1.36."


def judge_version(text: str) -> Iterator[Line]:
    """text: the API server's gitVersion, "v1.36.2"."""
    match = NUMBERS.match(text)
    if match is None:
        found, meaning = (
            f"The API server calls itself {text[:40] or 'nothing'}.",
            "What is proved for it is not known",
        )
        yield Line(SUBJECT, Standing.UNKNOWN, found, f"{meaning}: moves are best effort.", PROBE)
        return
    version = int(match[1]), int(match[2])
    found = f"Kubernetes {text[:40]}."
    if version == PROVED:
        yield Line(SUBJECT, Standing.OK, found, "Landing a moved pod on its target was proved on 1.36.")
    elif version >= MATCH_CONDITIONS:
        meaning = NEWER if version > PROVED else NEARLY if version >= NOMINATION else BEFORE_NOMINATION
        yield Line(SUBJECT, Standing.WARNING, found, meaning, PROBE)
    else:
        lacking = GATES_LACK if version < GATES else CONDITIONS_LACK
        meaning = f"It lacks {lacking}: moves cannot be steered and are planned only."
        yield Line(SUBJECT, Standing.PLANNED_ONLY, found, meaning, UPGRADE)
