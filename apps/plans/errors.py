"""What can be refused about a plan. Each says what happened and what to do.

InvalidRequest       what was asked for is no plan request
├── OverLimit        it asks for more than the cluster's policy allows
└── NotAdmitted      the queue of the workload would not admit it now, so room would not let it start
InvalidPolicy        a value that cannot stand in a policy; `field` names it
TooManyDrafts        one person has too many plans being computed at once
NothingKnown         there is no snapshot to plan on
WrongState           the plan has left the state that this change starts from
├── NotComputed      its version is still being made, or could not be made
├── NothingToDo      it moves nothing, so there is nothing to decide
├── PlannedOnly      its cluster is a dump, so nothing can be carried out there
├── TicketNeeded     the policy of its cluster wants a change ticket, and none was named
├── AlreadyBegun     its execution has started
└── PlanIsStale      the cluster has changed since it was made
OutdatedView         the newest snapshot is too old to decide on
DigestMismatch       the version that was looked at is not the plan's version
SelfApproval         a Denied: whoever asked for, edited or proposed a plan may not approve it
RecentLoginNeeded    a Denied: the login is too long ago
"""

from apps.accounts.errors import Denied


class InvalidRequest(Exception): ...


class OverLimit(InvalidRequest): ...


class NotAdmitted(InvalidRequest): ...


class InvalidPolicy(Exception):
    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class TooManyDrafts(Exception): ...


class NothingKnown(Exception): ...


class WrongState(Exception): ...


class NotComputed(WrongState): ...


class NothingToDo(WrongState): ...


class PlannedOnly(WrongState): ...


class TicketNeeded(WrongState): ...


class AlreadyBegun(WrongState): ...


class PlanIsStale(WrongState): ...


class OutdatedView(Exception): ...


class DigestMismatch(Exception): ...


class SelfApproval(Denied): ...


class RecentLoginNeeded(Denied): ...
