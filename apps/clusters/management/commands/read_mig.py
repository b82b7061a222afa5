"""Reads mig-parted configurations and `nvidia-smi` listings, without database or cluster."""

from __future__ import annotations

import json
from argparse import SUPPRESS
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.clusters.dumps import read_file
from apps.clusters.errors import BadDump
from apps.clusters.mig_files import read_mig_text
from apps.planner.mig.catalogue import UnknownModel, find_model
from apps.planner.mig.models import MigModel

LARGEST_BYTES = 4 * 1024 * 1024


class Command(BaseCommand):
    help = "Read a mig-parted configuration or an nvidia-smi listing and hold it against the MIG tables."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("file", help="YAML of mig-parted, text of nvidia-smi; - reads standard input")
        parser.add_argument("--model", metavar="PRODUCT", help="GPU that configurations are meant for")
        parser.add_argument("--json", action="store_true", help="answer in JSON on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        name = "standard input" if options["file"] == "-" else options["file"]
        try:
            text = read_file(options["file"], LARGEST_BYTES)
            answer = read_mig_text(name, text, _model(options["model"]))
        except (BadDump, UnknownModel) as error:
            raise CommandError(" ".join(str(error).split()), returncode=2) from error
        self.stdout.write(json.dumps(answer) if options["json"] else as_text(answer))
        if answer.get("why"):
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
    lines += [f"  {profile}" for profile in answer.get("mig", ())]
    lines += _tell_nodes(answer.get("nodes", ()))
    return "\n".join([*lines, *answer.get("warnings", ())])


def _tell_nodes(nodes: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A line for each node that MIG is on or was asked for; the others together."""
    without = 0
    for node in nodes:
        if not (node["mig_config"] or node["state"] or node["paused"]):
            without += 1
            continue
        gpus = f"{node['physical_gpus']} x {node['product'] or 'GPU of an unknown model'}"
        config = f"mig.config {node['mig_config'] or 'not set'}, state {node['state'] or 'not told'}"
        yield f"  {node['name']}: {gpus}, {config}. {node['sentence']}".rstrip()
    if without:
        yield f"  {without} node{'' if without == 1 else 's'} without MIG"


def _model(product: str | None) -> MigModel | None:
    return find_model(product) if product else None
