"""Addresses of the pages. A cluster's own pages stand under its name."""

from django.urls import path

from apps.dashboard.views import (
    executions,
    exports,
    fragmentation,
    governing,
    grid,
    node,
    plans,
    queue,
    reference,
    shell,
    tokens,
)

urlpatterns = [
    path("", shell.home, name="home"),
    path("clusters/", governing.cluster_list, name="clusters"),
    path("clusters/dumps/", governing.add_dump, name="dumps"),
    path("clusters/<slug:cluster>/", grid.grid, name="grid"),
    path("clusters/<slug:cluster>/picture.json", grid.picture_json, name="grid-picture"),
    path("clusters/<slug:cluster>/grid.csv", exports.grid_csv, name="grid-csv"),
    path("clusters/<slug:cluster>/grid.json", exports.grid_json, name="grid-json"),
    path("clusters/<slug:cluster>/nodes/<str:node>/", node.node, name="node"),
    path("clusters/<slug:cluster>/nodes/<str:node>/panel/", grid.node_panel, name="node-panel"),
    path("clusters/<slug:cluster>/queue/", queue.queue, name="queue"),
    path("clusters/<slug:cluster>/queue.csv", exports.queue_csv, name="queue-csv"),
    path("clusters/<slug:cluster>/queue.json", exports.queue_json, name="queue-json"),
    path("clusters/<slug:cluster>/fragmentation/", fragmentation.fragmentation_page, name="fragmentation"),
    path("clusters/<slug:cluster>/fragmentation/figure.json", fragmentation.figure_json, name="trend-figure"),
    path("clusters/<slug:cluster>/fragmentation.csv", fragmentation.trend_csv, name="trend-csv"),
    path("clusters/<slug:cluster>/fragmentation.json", fragmentation.trend_json, name="trend-json"),
    path("clusters/<slug:cluster>/plans/", plans.plans, name="plans"),
    path("clusters/<slug:cluster>/plans/<int:number>/", plans.plan, name="plan"),
    path("clusters/<slug:cluster>/plans/<int:number>/<slug:verb>/", plans.decide, name="plan-decide"),
    path("clusters/<slug:cluster>/executions/", executions.executions, name="executions"),
    path("clusters/<slug:cluster>/executions/<int:number>/", executions.execution, name="execution"),
    path(
        "clusters/<slug:cluster>/executions/<int:number>/<slug:verb>/", executions.act, name="execution-act"
    ),
    path("audit/", governing.audit_list, name="audit"),
    path("people/", governing.people, name="people"),
    path("tokens/", tokens.token_list, name="tokens"),
    path("tokens/<int:number>/revoke/", tokens.revoke, name="token-revoke"),
    path("reference/", reference.reference, name="reference"),
]
