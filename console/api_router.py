"""Every REST resource of the project, in the order of the flow."""

from collections.abc import Callable
from typing import Any

from rest_framework.routers import DefaultRouter

from apps.accounts.api import AuditViewSet
from apps.accounts.token_api import TokenViewSet
from apps.alerts.api import AlertViewSet
from apps.clusters.api import ClusterViewSet, SnapshotViewSet
from apps.clusters.node_api import GpuViewSet, NodeViewSet
from apps.executions.api import ExecutionViewSet
from apps.executions.holdings_api import HoldingsViewSet
from apps.executions.proving_api import SchedulerProofViewSet
from apps.executions.trust_api import PreflightViewSet, ShadowViewSet
from apps.fragmentation.api import FragmentationViewSet
from apps.pending.api import PendingViewSet
from apps.pending.queue_api import QueueViewSet
from apps.pending.what_if_api import WhatIfViewSet
from apps.placing.api import PlacementPolicyViewSet, VerdictViewSet
from apps.plans.api import PlanViewSet
from apps.plans.fallback_api import FallbackViewSet
from apps.plans.policy_api import PolicyViewSet
from apps.telemetry.api import TelemetryViewSet
from apps.webhooks.api import WebhookViewSet

NOT_LISTED = {"fragmentation": "fragmentation-latest"}
"""Resources that have no list: the root of the API names this address of theirs."""


class Router(DefaultRouter):
    def get_api_root_view(self, api_urls: Any = None) -> Callable[..., Any]:
        list_name = self.routes[0].name
        names = {
            prefix: NOT_LISTED.get(prefix) or list_name.format(basename=basename)
            for prefix, _, basename in self.registry
        }
        return self.APIRootView.as_view(api_root_dict=names)


router = Router()
router.register("clusters", ClusterViewSet)
router.register("nodes", NodeViewSet, basename="node")
router.register("gpus", GpuViewSet, basename="gpu")
router.register("snapshots", SnapshotViewSet)
router.register("telemetry", TelemetryViewSet, basename="telemetry")
router.register("fragmentation", FragmentationViewSet, basename="fragmentation")
router.register("pending", PendingViewSet, basename="pending")
router.register("queues", QueueViewSet, basename="queue")
router.register("what-if", WhatIfViewSet, basename="what-if")
router.register("placement-policies", PlacementPolicyViewSet, basename="placement-policy")
router.register("scheduler-proofs", SchedulerProofViewSet, basename="scheduler-proof")
router.register("verdicts", VerdictViewSet)
router.register("fallbacks", FallbackViewSet, basename="fallbacks")
router.register("plans", PlanViewSet)
router.register("executions", ExecutionViewSet)
router.register("policies", PolicyViewSet, basename="policy")
router.register("preflights", PreflightViewSet, basename="preflight")
router.register("shadow", ShadowViewSet, basename="shadow")
router.register("holdings", HoldingsViewSet, basename="holdings")
router.register("alerts", AlertViewSet)
router.register("webhooks", WebhookViewSet)
router.register("audit", AuditViewSet)
router.register("tokens", TokenViewSet)
