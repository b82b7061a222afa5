"""MIG as files: a row per GPU for spreadsheets; nodes, demand and changes for programs."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from apps.clusters import queries as clusters
from apps.dashboard.reading.mig import MigNode, look_at_mig, tell_untold
from apps.dashboard.views.exports import csv_file, json_file, newest
from apps.dashboard.views.shell import page
from apps.planner.mig.demand import ProfileDemand
from apps.planner.mig.use import GpuUse, Use
from apps.planner.snapshot import Snapshot as Picture


@page
def mig_csv(request: HttpRequest, cluster: str) -> HttpResponse:
    """One row per GPU that can be cut."""
    place, row = newest(request, cluster)
    picture = clusters.open_snapshot(row)
    names = _names(picture)
    rows = [_gpu_row(one, gpu, names) for one in look_at_mig(picture).nodes for gpu in one.use.gpus]
    return csv_file(f"{place.name}-mig-{row.pk}", rows)


@page
def mig_demand_csv(request: HttpRequest, cluster: str) -> HttpResponse:
    """One row per profile."""
    place, row = newest(request, cluster)
    look = look_at_mig(clusters.open_snapshot(row))
    return csv_file(f"{place.name}-mig-demand-{row.pk}", [_demand_row(one) for one in look.demand])


@page
def mig_json(request: HttpRequest, cluster: str) -> HttpResponse:
    """Both, and how each node's change stands."""
    place, row = newest(request, cluster)
    picture = clusters.open_snapshot(row)
    look, names = look_at_mig(picture), _names(picture)
    body = {
        "demand": [_demand_row(one) for one in look.demand],
        "nodes": [_node_row(one) for one in look.nodes],
        "gpus": [_gpu_row(one, gpu, names) for one in look.nodes for gpu in one.use.gpus],
    }
    return json_file(f"{place.name}-mig-{row.pk}", place, row, "mig", body)


def _names(picture: Picture) -> dict[str, str]:
    return {uid: pod.key for uid, pod in picture.pods.items()}


def _node_row(one: MigNode) -> dict[str, Any]:
    return {
        "node": one.node.name,
        "model": one.node.model,
        "mig_strategy": one.node.mig_strategy,
        "mig_config": one.change.config,
        "mig_config_state": one.change.state,
        "stage": str(one.change.stage),
        "paused_operands": list(one.change.paused),
        "instances_offered": dict(one.use.offered),
        "instances_in_use": dict(one.use.asked),
        "layouts_known": one.use.has_layouts,
        "holders_known": one.use.has_holders,
        "not_told": tell_untold(one.use),
    }


def _gpu_row(one: MigNode, gpu: GpuUse, names: dict[str, str]) -> dict[str, Any]:
    known = one.use.has_layouts
    return {
        "node": one.node.name,
        "gpu": gpu.index,
        "uuid": gpu.uuid,
        "model": one.node.model,
        "healthy": gpu.healthy,
        "layout": " ".join(
            f"{cut.profile}@{'?' if cut.start is None else cut.start}" for cut in gpu.instances
        )
        if known
        else None,
        "held_by": " ".join(names.get(cut.pod_uid, "?") for cut in gpu.instances if cut.use is Use.HELD),
        "instances_free": sum(cut.use is Use.FREE for cut in gpu.instances) if known else None,
        "instances_unknown": sum(cut.use is Use.UNKNOWN for cut in gpu.instances) if known else None,
        "memory_slices_uncut": sum(length for _, length in gpu.uncut) if known else None,
        "still_fits": " ".join(f"{number}x{name}" for name, number in (gpu.more or {}).items() if number),
        "note": gpu.trouble,
    }


def _demand_row(one: ProfileDemand) -> dict[str, Any]:
    return {
        "profile": one.profile,
        "pods_waiting": one.pods,
        "instances_wanted": one.wanted,
        "instances_free": one.idle,
        "instances_missing": one.missing,
        "instances_no_node_takes": one.kept_out,
        "instances_that_fit_uncut": one.more,
        "instances_in_use": one.in_use,
        "instances_offered": one.offered,
        "workloads_waiting": " ".join(one.waiting),
    }
