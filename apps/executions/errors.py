"""What can go wrong while a plan is carried out. Each says what, where, and what to do.

ExecutionError
├── WrongState    the execution or its plan is not in a state that allows this
├── InUse         another open execution has a node, pod or workload that this one needs
├── HeldByPolicy  a freeze window, the kill switch or a limit of the cluster's policy
└── LostLease     this runner's claim is over: it writes nothing more
"""

from __future__ import annotations


class ExecutionError(Exception): ...


class WrongState(ExecutionError): ...


class InUse(ExecutionError): ...


class HeldByPolicy(ExecutionError): ...


class LostLease(ExecutionError): ...
