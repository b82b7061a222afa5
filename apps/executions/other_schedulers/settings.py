"""The settings of other schedulers that decide what a lost pod costs, read from their own objects.

What cannot be read is told in `unread`: a setting that is not known is never taken for a harmless one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.executions.other_schedulers.durations import read_duration
from apps.kube.errors import Forbidden, NotFound
from apps.kube.gateway import CONFIG_MAPS, DEPLOYMENTS, KAI_POD_GROUPS, Gateway, Json, Kind
from apps.kube.translate.values import child, clean, entries, texts, whole
from apps.kube.yaml_text import BadYaml, load_yaml

SHARDS = Kind("kai.scheduler", "v1", "schedulingshards", False)
VOLCANO_JOBS = Kind("batch.volcano.sh", "v1alpha1", "jobs", True)
KAI_USUAL_GRACE = 60.0
"""Seconds: what KAI's scheduler takes where nobody says anything else."""
GRACE_ARGUMENTS = ("defaultStalenessGracePeriod", "default-staleness-grace-period")
GRACE_FLAG = "--default-staleness-grace-period"
KUEUE_NAMESPACE, KUEUE_CONFIG, KUEUE_KEY = (
    "kueue-system",
    "kueue-manager-config",
    "controller_manager_config.yaml",
)
RIGHTS_FILE = "deploy/rbac/trust.yaml"
RESTARTING = ("RestartJob", "AbortJob", "TerminateJob", "CompleteJob", "RestartTask", "RestartPartition")
LOST_POD = ("PodEvicted", "AnyEvent", "*")


@dataclass(frozen=True, slots=True)
class Program:
    """A Deployment (DaemonSet, CronJob) as far as it tells what runs in the cluster."""

    kind: str
    namespace: str
    name: str
    images: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    annotations: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Kai:
    """grace_seconds: of gangs that name none of their own; negative: stale gangs are left alone.
    consolidates: KAI moves pods by itself, by plain deletes."""

    is_present: bool = False
    grace_seconds: float = KAI_USUAL_GRACE
    grace_from: str = "KAI's default"
    consolidates: bool = True
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kueue:
    """recovery_seconds: a workload whose pods are not Ready again for so long is suspended and requeued;
    None: never."""

    is_present: bool = False
    recovery_seconds: float | None = None
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VolcanoJob:
    """answers: (task or "" for the whole job, what is done when one of its pods is evicted)."""

    namespace: str
    name: str
    answers: tuple[tuple[str, str], ...] = ()
    pods: int = 0

    def answer_for(self, task: str) -> str:
        found = dict(self.answers)
        return found.get(task) or found.get("", "")


@dataclass(frozen=True, slots=True)
class Volcano:
    is_present: bool = False
    jobs: Mapping[tuple[str, str], VolcanoJob] | None = None
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OtherSchedulers:
    kai: Kai
    kueue: Kueue
    volcano: Volcano
    koordinator: bool = False


def read_settings(gateway: Gateway, programs: Iterable[Program] | None = None) -> OtherSchedulers:
    """programs: the cluster's Deployments, where they are known already. Raises KubeError where the cluster
    does not answer; what it refuses to tell is kept as unread."""
    told = list(read_programs(gateway, DEPLOYMENTS, "Deployment") if programs is None else programs)
    return OtherSchedulers(
        kai=_read_kai(gateway, told),
        kueue=_read_kueue(gateway, told),
        volcano=_read_volcano(gateway, told),
        koordinator=any(_mentions(one, "koordinator", "koord-") for one in told),
    )


def read_programs(gateway: Gateway, kind: Kind, word: str) -> list[Program]:
    """Raises KubeError, Forbidden among them."""
    found, _revision = gateway.list_reduced(kind, lambda raw: read_program(raw, word))
    return found


def read_program(raw: Mapping[str, Any], word: str) -> Program:
    metadata = child(raw, "metadata")
    spec = child(raw, "spec", "jobTemplate", "spec") or child(raw, "spec")  # the former of a CronJob
    containers = entries(child(spec, "template", "spec"), "containers")
    arguments = [
        clean(part, 1000)
        for container in containers
        for key in ("command", "args")
        for part in _lines(container.get(key))
    ]
    return Program(
        f"suspended {word}" if child(raw, "spec").get("suspend") is True else word,
        clean(metadata.get("namespace"), 253),
        clean(metadata.get("name"), 253),
        tuple(clean(container.get("image"), 500) for container in containers),
        tuple(arguments[:200]),
        texts(child(metadata, "annotations")),
    )


def _lines(found: object) -> list[Any]:
    return found if isinstance(found, list) else []


def _mentions(program: Program, *words: str) -> bool:
    return any(word in text for word in words for text in (program.name, *program.images))


def _read_kai(gateway: Gateway, programs: list[Program]) -> Kai:
    mine = [one for one in programs if _mentions(one, "kai-scheduler", "runai-scheduler")]
    unread: list[str] = []
    shards = _list(gateway, SHARDS, unread)
    if not mine and not shards and not _has_any(gateway, KAI_POD_GROUPS):
        return Kai()
    graces = [*_graces_of_shards(shards or ()), *_graces_of_flags(mine)]
    grace, source = min(graces, default=(KAI_USUAL_GRACE, "KAI's default"), key=lambda one: _harm(one[0]))
    return Kai(True, grace, source, _consolidates(shards), tuple(unread))


def _harm(seconds: float) -> float:
    """The shortest counts; never is the longest of all."""
    return seconds if seconds >= 0 else float("inf")


def _graces_of_shards(shards: Iterable[Json]) -> Iterable[tuple[float, str]]:
    for shard in shards:
        name = clean(child(shard, "metadata").get("name"), 253)
        if child(shard, "spec", "actions", "stalegangeviction").get("enabled") is False:
            yield -1.0, f"SchedulingShard {name}, which evicts no stale gangs"
            continue
        arguments = child(shard, "spec", "args")
        for key in GRACE_ARGUMENTS:
            seconds = read_duration(arguments.get(key))
            if seconds is not None:
                yield seconds, f"SchedulingShard {name}"


def _graces_of_flags(programs: Iterable[Program]) -> Iterable[tuple[float, str]]:
    for one in programs:
        for place, argument in enumerate(one.arguments):
            name, _, value = argument.partition("=")
            if name != GRACE_FLAG:
                continue
            after = one.arguments[place + 1] if place + 1 < len(one.arguments) else ""
            seconds = read_duration(value or after)
            if seconds is not None:
                yield seconds, f"Deployment {one.namespace}/{one.name}"


def _consolidates(shards: Iterable[Json] | None) -> bool:
    """On by default, off in a shard that spreads or says so."""
    for shard in shards or ({},):
        said = child(shard, "spec", "actions", "consolidation").get("enabled")
        spreads = "spread" in child(shard, "spec", "placementStrategy").values()
        if said is True or (said is not False and not spreads):
            return True
    return False


def _read_kueue(gateway: Gateway, programs: list[Program]) -> Kueue:
    if not any(_mentions(one, "kueue") for one in programs):
        return Kueue()
    try:
        found = gateway.get_object(CONFIG_MAPS, KUEUE_CONFIG, namespace=KUEUE_NAMESPACE)
    except Forbidden:
        right = f"the right to get ConfigMap {KUEUE_NAMESPACE}/{KUEUE_CONFIG} is missing"
        return Kueue(True, None, (f"Kueue's waitForPodsReady is not known: {right} ({RIGHTS_FILE}).",))
    text = child(found, "data").get(KUEUE_KEY)
    if not isinstance(text, str):
        where = f"ConfigMap {KUEUE_NAMESPACE}/{KUEUE_CONFIG} has no {KUEUE_KEY}"
        return Kueue(True, None, (f"Kueue's waitForPodsReady is not known: {where}.",))
    return read_kueue_config(text)


def read_kueue_config(text: str) -> Kueue:
    try:
        documents = load_yaml(text)
    except BadYaml as error:
        return Kueue(True, None, (f"Kueue's configuration cannot be read: {error}.",))
    for document in documents:
        waiting = document.get("waitForPodsReady") if isinstance(document, dict) else None
        if isinstance(waiting, dict) and waiting.get("enable") is not False:
            return Kueue(True, read_duration(waiting.get("recoveryTimeout")))
    return Kueue(True)


def _read_volcano(gateway: Gateway, programs: list[Program]) -> Volcano:
    unread: list[str] = []
    jobs = _list(gateway, VOLCANO_JOBS, unread)
    is_present = bool(jobs) or any(_mentions(one, "volcano", "vc-scheduler") for one in programs)
    if not is_present:
        return Volcano()
    if jobs is None:
        return Volcano(True, None, tuple(unread))
    told = [read_volcano_job(raw) for raw in jobs]
    return Volcano(True, {(one.namespace, one.name): one for one in told})


def read_volcano_job(raw: Mapping[str, Any]) -> VolcanoJob:
    metadata, spec = child(raw, "metadata"), child(raw, "spec")
    answers, pods = [], 0
    whole_job = _answer(entries(spec, "policies"))
    if whole_job:
        answers.append(("", whole_job))
    for task in entries(spec, "tasks")[:1000]:
        pods += max(whole(task.get("replicas"), 1), 0)
        of_task = _answer(entries(task, "policies"))
        if of_task:
            answers.append((clean(task.get("name"), 253), of_task))
    return VolcanoJob(
        clean(metadata.get("namespace"), 253), clean(metadata.get("name"), 253), tuple(answers), pods
    )


def _answer(policies: Iterable[Mapping[str, Any]]) -> str:
    for policy in policies:
        events: list[Any] = [policy.get("event")]
        if isinstance(policy.get("events"), list):
            events = policy["events"]
        action = clean(policy.get("action"), 60)
        if action in RESTARTING and any(event in LOST_POD for event in events):
            return action
    return ""


def _list(gateway: Gateway, kind: Kind, unread: list[str]) -> list[Json] | None:
    """None where it may not be read; [] where the kind does not exist."""
    try:
        return gateway.list_objects(kind).objects
    except NotFound:
        return []
    except Forbidden as error:
        unread.append(f"{kind.plural}.{kind.group} cannot be read ({RIGHTS_FILE}): {error}")
        return None


def _has_any(gateway: Gateway, kind: Kind) -> bool:
    try:
        return bool(gateway.list_objects(kind).objects)
    except (NotFound, Forbidden):
        return False
