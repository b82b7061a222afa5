"""The extender of a registered cluster: its row, what its nodes showed before, and the ledger of bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog
from django.db import DatabaseError, close_old_connections, transaction

from apps.audit.services import record
from apps.clusters.expectations import read_expectations
from apps.clusters.gateways import open_gateway
from apps.clusters.models import Cluster
from apps.planner.drift import Expected
from apps.scheduling.extender.assembling import Served, put_together
from apps.scheduling.extender.binding import Record
from apps.scheduling.extender.holds import HoldBook
from apps.scheduling.extender.options import Options
from apps.scheduling.extender.proofs import ProofBook
from apps.scheduling.extender.verdicts import VerdictSink
from apps.scheduling.extender.wire import BindingCall

logger = structlog.get_logger(__name__)


def make_extender(
    cluster: Cluster,
    options: Options,
    *,
    holds: HoldBook | None = None,
    sink: VerdictSink | None = None,
    proofs: ProofBook | None = None,
) -> Served:
    """Raises ClusterError where its credential cannot be used."""
    return put_together(
        open_gateway(cluster),
        options,
        cluster=cluster.name,
        record=recorder(cluster.name),
        find_expected=_expected_of(cluster.pk),
        holds=holds,
        sink=sink,
        proofs=proofs,
    )


def recorder(cluster: str) -> Record:
    """Commits the intent of each binding to the ledger; called in threads."""

    def record_intent(call: BindingCall) -> None:
        try:
            with transaction.atomic():
                record(
                    actor=None,
                    action="extender.bind",
                    subject=f"{call.namespace}/{call.name}",
                    cluster=cluster,
                    detail={"uid": call.uid, "node": call.node},
                )
        finally:
            close_old_connections()

    return record_intent


def _expected_of(cluster_id: int) -> Callable[[], Mapping[str, Expected]]:
    """What was read last is kept while the database is away."""
    last: dict[str, Expected] = {}

    def find() -> Mapping[str, Expected]:
        nonlocal last
        try:
            last = read_expectations(cluster_id)
        except DatabaseError as error:
            logger.warning("the database is away: drift is judged by what was read last", error=str(error))
        finally:
            close_old_connections()
        return last

    return find
