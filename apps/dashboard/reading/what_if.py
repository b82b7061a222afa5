"""A question "what if pods like this came", as the address asks it, and its answer in words.

Anything in the address that cannot be read is said beside its field; nothing is guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from apps.dashboard.reading.words import listing, plural
from apps.planner.inventory import LinkClass
from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.nodes import offered_profiles
from apps.planner.mig.use import is_capable, model_of, plain_profiles
from apps.planner.naming import shown_model
from apps.planner.resources import parse_quantity
from apps.planner.snapshot import Snapshot
from apps.planner.whatif import (
    LINKS,
    MIG_PROFILE,
    MOST_GPUS,
    MOST_INSTANCES,
    MOST_MIB,
    MOST_MILLICORES,
    MOST_PODS,
    Shape,
    Verdict,
    count_fitting,
)
from apps.planner.whatif_rules import LINK_WORDS

RULES: Mapping[str, str] = {
    "ready": "Ready",
    "cordon": "Cordon",
    "taints": "Taints",
    "selector": "Selector",
    "affinity": "Affinity",
    "scheduler": "Scheduler",
    "volume": "Volume",
    "model": "Model",
    "gpu-memory": "GPU memory",
    "device": "Device",
    "gpus": "GPUs",
    "link": "Link",
    "mig": "MIG",
    "cpu": "CPU",
    "memory": "Memory",
    "storage": "Storage",
    "resource": "Others",
    "pods": "Pods",
    "ports": "Ports",
    "pod-affinity": "Pod affinity",
    "pod-anti-affinity": "Anti-affinity",
    "spread": "Spread",
}


@dataclass(frozen=True, slots=True)
class Ask:
    """fields: as typed, by name. errors: what cannot be read, by name. shape: None while there are any."""

    fields: Mapping[str, str]
    shape: Shape | None
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Nothing is asked for yet."""
        return not self.errors and (self.shape is None or _asks_nothing(self.shape))


FIELDS = ("gpus", "count", "link", "model", "memory_mib", "cpu", "host_memory_mib", "mig", "mig_count")


def read_ask(told: Mapping[str, str]) -> Ask:
    """told: the query of the address."""
    fields = {name: told.get(name, "").strip()[:60] for name in FIELDS}
    errors: dict[str, str] = {}

    def read(name: str, reader: Callable[[str], int], empty: int) -> int:
        if not fields[name]:
            return empty
        try:
            return reader(fields[name])
        except ValueError as error:
            errors[name] = str(error)
            return empty

    milli = read("gpus", _gpu_milli, 0)
    link, mig = fields["link"], fields["mig"]
    if link and link not in LINKS:
        errors["link"] = f"Link {link!r} is none of {', '.join(LINKS)}."
    if mig and not re.fullmatch(MIG_PROFILE, mig):
        errors["mig"] = f"{mig!r} is no MIG profile: write it like 1g.10gb."
    instances = read("mig_count", lambda text: _whole(text, "Instances", 1, MOST_INSTANCES), 1)
    shape = Shape(
        count=read("count", lambda text: _whole(text, "Pods", 1, MOST_PODS), 1),
        gpus=1 if 0 < milli < 1000 else milli // 1000,
        milli=milli if 0 < milli < 1000 else 1000,
        link=LinkClass(link) if link in LINKS else None,
        model=fields["model"],
        memory_mib=read("memory_mib", lambda text: _whole(text, "GPU memory", 0, MOST_MIB), 0),
        cpu_milli=read("cpu", _cpu, 0),
        host_memory_mib=read("host_memory_mib", lambda text: _whole(text, "Host memory", 0, MOST_MIB), 0),
        mig=((mig, instances),) if mig and "mig" not in errors else (),
    )
    return Ask(fields, None if errors else shape, errors)


def _gpu_milli(text: str) -> int:
    """ "4" whole GPUs, or a share of one: "0.5"."""
    if not re.fullmatch(r"\d{1,3}(\.\d{1,3})?", text):
        raise ValueError(f"GPUs must be a number such as 4 or 0.5, not {text!r}.")
    milli = round(float(text) * 1000)
    if milli > MOST_GPUS * 1000:
        raise ValueError(f"At most {MOST_GPUS} GPUs a pod can be asked for.")
    if milli > 1000 and milli % 1000:
        raise ValueError("More than one GPU must be a whole number of GPUs.")
    return milli


def _whole(text: str, what: str, low: int, high: int) -> int:
    if not re.fullmatch(r"\d{1,9}", text) or not low <= int(text) <= high:
        raise ValueError(f"{what} must be a whole number from {low} to {high:,}, not {text!r}.")
    return int(text)


def _cpu(text: str) -> int:
    try:
        milli = parse_quantity(text, "cpu")
    except ValueError:
        milli = -1
    if not 0 <= milli <= MOST_MILLICORES:
        raise ValueError(f"CPU must be a number of cores such as 8 or 500m, not {text!r}.")
    return milli


def _asks_nothing(shape: Shape) -> bool:
    return not (shape.gpus or shape.mig or shape.cpu_milli or shape.host_memory_mib)


@dataclass(frozen=True, slots=True)
class Choices:
    """What the form offers to choose from: what this cluster has."""

    models: tuple[str, ...]
    profiles: tuple[str, ...]


def list_choices(snapshot: Snapshot) -> Choices:
    models, profiles = set(), set()
    for node in snapshot.nodes.values():
        if node.gpus and node.model:
            models.add(shown_model(node.model))
        if is_capable(node):
            model, _ = model_of(node)
            profiles |= {*offered_profiles(node), *(plain_profiles(model) if model else ())}
    sizes = {name: one.memory_gb for model in MODELS.values() for name, one in model.by_name.items()}
    ordered = sorted(profiles, key=lambda name: (sizes.get(name, 0), name))
    return Choices(tuple(sorted(models)), tuple(ordered))


def say_shape(shape: Shape) -> str:
    """ "3 pods of 8 GPUs, NVLink, A100, 64 GiB of memory"."""
    parts = []
    if shape.gpus:
        share = f"{shape.milli / 10:g} % of a GPU"
        parts.append(share if shape.milli < 1000 else plural(shape.gpus, "GPU"))
    parts += [f"{number} × {profile}" for profile, number in shape.mig]
    if shape.cpu_milli:
        parts.append(f"{shape.cpu_milli / 1000:g} CPU")
    if shape.host_memory_mib:
        parts.append(f"{shape.host_memory_mib:,} MiB of host memory")
    wishes = [LINK_WORDS[shape.link]] if shape.link and shape.gpus > 1 else []
    wishes += [shape.model] if shape.model else []
    wishes += [f"at least {shape.memory_mib:,} MiB a GPU"] if shape.memory_mib else []
    tail = f", {', '.join(wishes)}" if wishes else ""
    return f"{plural(shape.count, 'pod')} of {listing(parts) or 'nothing'}{tail}"


@dataclass(frozen=True, slots=True)
class Answer:
    """fitting: nodes that take one now. room: pods that fit now. refusals: (nodes, rule) most first.
    columns: rules that were asked of any node, in order."""

    fitting: int
    nodes: int
    room: int
    wanted: int
    refusals: tuple[tuple[int, str], ...]
    columns: tuple[tuple[str, str], ...]

    @property
    def is_enough(self) -> bool:
        return self.room >= self.wanted

    @property
    def sentence(self) -> str:
        """The answer in one line."""
        if not self.nodes:
            return "There is no node to put it on."
        if not self.fitting:
            return f"None of {plural(self.nodes, 'node')} takes it now."
        takes, fit = ("takes" if self.fitting == 1 else "take"), ("fits" if self.room == 1 else "fit")
        head = f"{self.fitting} of {plural(self.nodes, 'node')} {takes} it now; "
        head += f"{plural(self.room, 'such pod')} {fit}"
        if self.is_enough:
            return f"{head}, {self.wanted} wanted."
        return f"{head}, too few for the {self.wanted} wanted."


def read_answer(verdicts: Sequence[Verdict], wanted: int) -> Answer:
    refused = Counter(rule for verdict in verdicts for rule in {one.rule for one in verdict.broken})
    asked = {rule.rule for verdict in verdicts for rule in verdict.rules}
    return Answer(
        fitting=sum(verdict.fits for verdict in verdicts),
        nodes=len(verdicts),
        room=count_fitting(tuple(verdicts)),
        wanted=wanted,
        refusals=tuple((number, RULES[rule]) for rule, number in refused.most_common()),
        columns=tuple((rule, word) for rule, word in RULES.items() if rule in asked),
    )


@dataclass(frozen=True, slots=True)
class Line:
    """One node in the ranking. cells: for each column True, False or None where the rule was not asked."""

    place: int
    verdict: Verdict
    model: str
    cells: tuple[tuple[str, bool | None, str], ...]

    @property
    def score(self) -> str:
        return f"{self.verdict.score:.0f}"

    @property
    def parts(self) -> str:
        """ "62 for 62 % of its GPUs in use, +20 for NVLink": how the score came about."""
        said = [f"{part.points:+.0f} {part.words}" for part in self.verdict.score_parts]
        return ", ".join(said).removeprefix("+").replace("-", "−")


def draw_line(place: int, verdict: Verdict, answer: Answer, snapshot: Snapshot) -> Line:
    rules: dict[str, tuple[bool, str]] = {}
    for one in verdict.rules:
        met, words = rules.get(one.rule, (True, ""))
        rules[one.rule] = (met and one.is_met, f"{words} {one.words}".strip())
    cells = tuple(
        (word, rules[rule][0], rules[rule][1]) if rule in rules else (word, None, "")
        for rule, word in answer.columns
    )
    return Line(place, verdict, shown_model(snapshot.nodes[verdict.node].model), cells)
