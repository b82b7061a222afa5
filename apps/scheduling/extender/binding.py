"""Bind, where the scheduler leaves it to us: the one effect of the extender on a cluster.

The intent stands in the ledger before anything is sent. The UID in the binding makes the API server refuse
any other pod of that name; the same binding asked for again is found done. Not in here: which node (that is
the scheduler's word).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from apps.kube.errors import Conflict, KubeError
from apps.kube.gateway import PODS, Json, Kind
from apps.planner.inventory import Pod
from apps.scheduling.extender.assumed import Assumed, Cause
from apps.scheduling.extender.deciding import Extender
from apps.scheduling.extender.holds import who_keeps
from apps.scheduling.extender.verdicts import Verdict
from apps.scheduling.extender.wire import BindingCall

Record = Callable[[BindingCall], None]
"""Commits the intent; called in a thread."""
OFF = "this extender does not bind: take bindVerb out of its configuration, or serve it with --bind"


class BindingGateway(Protocol):
    def bind_pod(self, namespace: str, name: str, *, uid: str, node: str) -> None: ...

    def get_object(self, kind: Kind, name: str, *, namespace: str | None = None) -> Json | None: ...


class Binder:
    def __init__(self, extender: Extender, gateway: BindingGateway, record: Record) -> None:
        self._extender, self._gateway, self._record = extender, gateway, record

    async def bind(self, call: BindingCall) -> str:
        """ "" where the pod is bound to that node now, else why it is not."""
        extender = self._extender
        if not extender.options.binds:
            return OFF
        now, picture = extender.clock(), extender.picture
        pod = picture.pods.get(call.uid)
        error = self._why_kept(call, pod, now)
        if not error:
            if pod is not None and not pod.node_name:
                until = now + extender.options.bound_seconds
                picture.assume(Assumed(pod, call.node, Cause.BOUND, until))
            error = await asyncio.to_thread(self._send, call)
        if error:
            picture.release(call.uid)
        key = f"{call.namespace}/{call.name}"
        verdict = Verdict("bind", now, call.uid, key, "", extender.age(), node=call.node, note=error)
        extender.sink.keep(verdict)
        return error

    def _why_kept(self, call: BindingCall, pod: Pod | None, now: float) -> str:
        """A pod that the watch has not told of may be anybody's: no kept node is open to it yet."""
        holds = self._extender.holds
        if pod is not None:
            return who_keeps(holds, pod, now).get(call.node, "")
        kept = [hold for hold in holds.holds().get(call.node, ()) if not hold.is_over(now)]
        return f"the pod is not known to the extender yet, and the node is {kept[0].reason}" if kept else ""

    def _send(self, call: BindingCall) -> str:
        where = f"{call.namespace}/{call.name}"
        try:
            self._record(call)
        except Exception as error:  # whatever it is: what is not in the ledger is not done
            return f"{where} is not bound: its intent could not be recorded ({type(error).__name__})"
        try:
            self._gateway.bind_pod(call.namespace, call.name, uid=call.uid, node=call.node)
        except Conflict as error:
            return "" if self._is_bound(call) else f"{where} is not bound to {call.node}: {error}"
        except KubeError as error:
            return f"{where} is not bound to {call.node}: {error}"
        return ""

    def _is_bound(self, call: BindingCall) -> bool:
        """The same binding was carried out before."""
        try:
            found = self._gateway.get_object(PODS, call.name, namespace=call.namespace)
        except KubeError:
            return False
        if found is None or found["metadata"].get("uid") != call.uid:
            return False
        return bool((found.get("spec") or {}).get("nodeName") == call.node)
