"""A Job that appears, as the surroundings of its pods are to know it before the next whole snapshot."""

from __future__ import annotations

from dataclasses import replace

from apps.kube.translate.picture import read_owner
from apps.kube.translate.single import Scenery
from apps.kube.translate.unreadable import UNREADABLE, Raw, opened
from apps.planner.inventory import Gang


def with_job(scenery: Scenery, raw: Raw) -> tuple[Scenery, Gang | None]:
    """The surroundings with a Job that they may not have yet, and the gang that its pods are if they say so:
    pods follow their Job at once, and a gang must not begin before it is known to be one."""
    try:
        job, is_gang = read_owner(opened(raw), "Job")
    except UNREADABLE:
        return scenery, None
    around = scenery.around
    if job.uid not in around.workloads:
        jobs = around.job_gangs | {job.uid} if is_gang else around.job_gangs
        around = replace(around, workloads={**around.workloads, job.uid: job}, job_gangs=jobs)
        scenery = replace(scenery, around=around)
    return scenery, Gang(f"{job.namespace}/{job.name}", job.replicas or 1, kind="Job")
