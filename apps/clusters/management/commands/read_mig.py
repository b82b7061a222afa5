"""Reads mig-parted configurations and `nvidia-smi` listings, without database or cluster."""

from __future__ import annotations

import json
from argparse import SUPPRESS
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.management.base import CommandParser

from apps.clusters.answering import OfflineCommand
from apps.clusters.input_files import name_of, read_file
from apps.clusters.mig_files import read_mig_text
from apps.clusters.mig_listing_answer import Question
from apps.planner.mig.catalogue import UnknownModel, find_model

LARGEST_BYTES = 4 * 1024 * 1024
MOST_IDS = 10_000


class BadQuestion(Exception):
    """An argument that cannot be read; the message says which and why."""


class Command(OfflineCommand):
    help = "Read a mig-parted configuration or an nvidia-smi listing and hold it against the MIG tables."
    errors = (BadQuestion, UnknownModel)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("file", help="YAML of mig-parted, text of nvidia-smi; - reads standard input")
        parser.add_argument("--model", metavar="PRODUCT", help="GPU that configurations are meant for")
        parser.add_argument(
            "--want",
            metavar="PROFILE=N,…",
            help="instances that each listed GPU is to have: whether that can be reached from what it has",
        )
        parser.add_argument(
            "--in-use",
            metavar="ID,…",
            help="GPU instances (of -lgi) that must stay; all or none; left out: those that the listing's "
            "programs use, or all where it lists none",
        )
        parser.add_argument("--json", action="store_true", help="answer in JSON on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        question = _question(options)
        answer = read_mig_text(name_of(options["file"]), read_file(options["file"], LARGEST_BYTES), question)
        if options["json"]:
            self.stdout.write(json.dumps(answer))
        else:
            self.tell(as_text(answer))
        if answer.get("why") or any(one["why"] for one in answer.get("ways", {}).values()):
            raise SystemExit(1)  # read, and refused: the answer has said what and why


def as_text(answer: dict[str, Any]) -> str:
    lines = [f"{answer['kind']}" + (f", {answer['model']}" if answer.get("model") else "")]
    for name in answer.get("configs", ()):
        reason = answer["why"].get(name)
        lines.append(f"  {name}: {'REFUSED: ' + reason if reason else 'legal'}")
    for name, facts in answer["profiles"].items() if isinstance(answer.get("profiles"), dict) else ():
        lines.append(f"  {name} (id {facts['id']}): {facts['free']} of {facts['total']} free")
    for number, facts in answer.get("placements", {}).items():
        lines.append(f"  id {number}: start slices {facts['starts']}, {facts['size']} memory slices long")
    for one in answer.get("instances", ()):
        lines.append(f"  GPU {one['gpu']}: {one['profile']} at {one['start']}")
    for gpu, fits in answer.get("fits", {}).items():
        words = ", ".join(f"{number} x {name}" for name, number in fits.items() if number)
        lines.append(f"  GPU {gpu}: as it is cut, {words or 'nothing more'} {'fits' if not words else 'fit'}")
    lines += [line for gpu, way in answer.get("ways", {}).items() for line in _tell_way(gpu, way)]
    for row in answer.get("rows", ()):
        name = row["profile"] or "an instance"
        lines.append(f"  GPU {row['gpu']}: {name} (id {row['gi']}), {row['memory_mib']} MiB")
    if answer["kind"] == "nvidia-smi":
        lines += [f"  {profile}" for profile in answer.get("mig", ())]
    lines += _tell_nodes(answer.get("nodes", ()))
    return "\n".join([*lines, *answer.get("warnings", ())])


def _tell_way(gpu: str, way: dict[str, Any]) -> Iterator[str]:
    if way["why"]:
        yield f"  GPU {gpu}: NOT REACHABLE: {way['why']}"
        return
    for word in ("destroyed", "created"):
        named = ", ".join(f"{one['profile']} at {one['start']}" for one in way[word])
        yield f"  GPU {gpu}: {word}: {named or 'nothing'}"
    if not way["by_clearing"]:
        yield f"  GPU {gpu}: not by mig-parted, which clears the GPU first; instance by instance only"


def _tell_nodes(nodes: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A line for each node that MIG is on or was asked for; the others together."""
    without = 0
    for node in nodes:
        if not (node["mig_config"] or node["state"] or node["paused"]):
            without += 1
            continue
        gpus = f"{node['physical_gpus']} x {node['product'] or 'GPU of an unknown model'}"
        config = f"mig.config {node['mig_config'] or 'not set'}, state {node['state'] or 'not told'}"
        yield f"  {node['name']}: {gpus}, {config}. {node['sentence']} {node['repair']}".rstrip()
    if without:
        yield f"  {without} node{'' if without == 1 else 's'} without MIG"


def _question(options: dict[str, Any]) -> Question:
    model = find_model(options["model"]) if options["model"] else None
    return Question(model, _wanted(options["want"]), _in_use(options["in_use"]))


def _wanted(text: str | None) -> dict[str, int] | None:
    if text is None:
        return None
    found: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        profile, _, number = part.strip().partition("=")
        if not profile or not (number or "1").isdecimal() or len(number) > 3:
            raise BadQuestion(f"--want {part[:40]!r} is no PROFILE=NUMBER.")
        found[profile] = found.get(profile, 0) + int(number or "1")
    return found


def _in_use(text: str | None) -> frozenset[int] | None:
    """None where the listing is to tell."""
    if text is None:
        return None
    if text == "all":
        return frozenset(range(MOST_IDS))
    parts = [] if text == "none" else [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 5 for part in parts):
        raise BadQuestion("--in-use takes ids of GPU instances as -lgi lists them, or all, or none.")
    return frozenset(map(int, parts))
