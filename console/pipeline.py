"""The beat schedule; reads as the list of stages.

Each entry is only a timer: every stage would be right on its timer alone, messages merely make it
faster. An entry that was not picked up before the next one is due is dropped (`expires`).
"""

from typing import Any


def _every(seconds: float, task: str) -> dict[str, Any]:
    return {"task": task, "schedule": seconds, "options": {"expires": seconds}}


SCHEDULE: dict[str, dict[str, Any]] = {
    "read telemetry": _every(15, "apps.telemetry.tasks.read_telemetry"),
    "measure new snapshots": _every(15, "apps.fragmentation.tasks.measure_snapshots"),
    "forget old waits": _every(3600, "apps.pending.tasks.forget_old_stays"),
    "forget old verdicts": _every(3600, "apps.placing.tasks.forget_old_verdicts"),
    "prepare grids": _every(15, "apps.dashboard.tasks.prepare_grids"),
    "compute requested plans": _every(10, "apps.plans.tasks.compute_requested_plans"),
    "expire old plans": _every(30, "apps.plans.tasks.expire_plans"),
    "mark stale plans": _every(10, "apps.plans.tasks.mark_stale_plans"),
    "dry-run evictions of proposed plans": _every(10, "apps.executions.tasks.run_missing_dry_runs"),
    "free pods that a gate of ours kept": _every(30, "apps.executions.tasks.free_stray_pods"),
    "tell the owners of moved pods": _every(5, "apps.executions.tasks.tell_owners_of_moves"),
    "look whether clusters can be trusted with plans": _every(30, "apps.executions.tasks.examine_clusters"),
    "predict for clusters in shadow": _every(60, "apps.executions.tasks.follow_shadow_clusters"),
    "look at the kill switches in clusters": _every(15, "apps.executions.tasks.look_at_kill_switches"),
    "look at what is held in clusters": _every(15, "apps.executions.tasks.look_at_all_holdings"),
    "release everything where it was ordered": _every(15, "apps.executions.tasks.work_on_releases"),
    "prove whether schedulers obey their extenders": _every(15, "apps.executions.tasks.work_on_proofs"),
    "measure GPU-hours of executions": _every(60, "apps.executions.tasks.measure_gpu_hours"),
    "stay the console that may change its clusters": _every(10, "apps.executions.tasks.keep_leases"),
    "tell webhooks": _every(5, "apps.webhooks.tasks.tell_receivers"),
    "look for trouble": _every(10, "apps.alerts.tasks.look_for_trouble"),
    "carry executions forward": _every(5, "apps.executions.tasks.reconcile_executions"),
}
