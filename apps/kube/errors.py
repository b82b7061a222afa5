"""What can go wrong at the door to Kubernetes. Each says what happened, where, and what to do.

KubeError
├── Unreachable          no connection, name, time-out (with `acted` unknown)
│   └── Untrusted        certificate not signed by the given CA, or for another name
├── NotSent              held back by ourselves right before it would have left
├── Unauthorized         401: the credential is refused
├── Forbidden            403: the right is missing
├── NotFound             404
├── Conflict             409: changed meanwhile, or another UID
│   └── AlreadyExists
├── Expired              410: too old resourceVersion: list again
├── Invalid              422 or 400
├── TooManyRequests      429 of priority and fairness
│   ├── BudgetExhausted  429 of a PodDisruptionBudget
│   └── MovedByItsOwner  429 of an admission webhook that has begun to move the pod itself
├── SeveralBudgets       500: more than one PDB on a pod
├── ServerFailed         other 5xx
├── BrokenStream         a watch line that is no JSON, or the stream was cut
└── AnotherCluster       the pinned kube-system UID is not the one that answers
"""

from __future__ import annotations


class KubeError(Exception):
    """status: HTTP status or None. retry_after: seconds the server asked for, or None."""

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class Unreachable(KubeError):
    """Whether the request took effect is not known."""


class Untrusted(Unreachable): ...


class NotSent(KubeError): ...


class Unauthorized(KubeError): ...


class Forbidden(KubeError): ...


class NotFound(KubeError): ...


class Conflict(KubeError): ...


class AlreadyExists(Conflict): ...


class Expired(KubeError): ...


class Invalid(KubeError): ...


class TooManyRequests(KubeError): ...


class BudgetExhausted(TooManyRequests): ...


class MovedByItsOwner(TooManyRequests):
    """The eviction did take effect: a virtual machine's live migration has begun. Nobody asks again."""


class SeveralBudgets(KubeError): ...


class ServerFailed(KubeError): ...


class BrokenStream(KubeError): ...


class AnotherCluster(KubeError): ...
