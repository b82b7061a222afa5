"""Pods by which the console finds out whether the scheduler obeys (apps.executions.proving): what is said of
them. Known by a token that the keeper reads from the rows; a pod with another one is let through nowhere.
"""

from __future__ import annotations

from apps.executions.names import PROOF
from apps.executions.proving.probes import Part, refusing_words, silent_words
from apps.scheduling.extender.wire import Json

UNKNOWN = "the pod's proof is not known to the extender"


class NoAnswer(Exception):
    """The call is to fail, as if nobody were here; the text goes into the error."""


class ProofBook:
    """The token of the proof that is under way, replaced by whoever reads the rows."""

    def __init__(self) -> None:
        self._token = ""

    def replace(self, token: str) -> None:
        """ "" for none."""
        self._token = token

    def refusal_of(self, pod: Json) -> str:
        """Why no node may take this pod, "" where it is none of a proof. Raises NoAnswer."""
        annotations = pod["metadata"].get("annotations")
        told = annotations.get(PROOF) if isinstance(annotations, dict) else None
        if not isinstance(told, str):
            return ""
        token, _, part = told.partition(".")
        if not token or token != self._token or part not in list(Part):
            return UNKNOWN
        if part == Part.WAITS:
            raise NoAnswer(silent_words(token))
        return refusing_words(token)
