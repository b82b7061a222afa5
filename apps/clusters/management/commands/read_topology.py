"""Reads how the GPUs of a machine are linked, from a tool's text or an annotation, without any cluster."""

from __future__ import annotations

import json
from argparse import SUPPRESS
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.clusters.answering import OfflineCommand
from apps.clusters.input_files import name_of, read_file
from apps.clusters.topology_answer import answer_topology, find_group
from apps.kube.topology.documents import read_topology
from apps.planner.bandwidth import generation_of
from apps.planner.inventory import LinkClass

LARGEST_BYTES = 1024 * 1024


class Command(OfflineCommand):
    help = "Read the links between GPUs: nvidia-smi topo -m and its relatives, or the annotation of a node."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("file", help="what the tool printed, or JSON; - reads standard input")
        parser.add_argument(
            "--model", metavar="PRODUCT", default="", help="the GPUs' product, for bandwidths"
        )
        parser.add_argument("--group", metavar="N", type=int, help="name the best N GPUs to take together")
        links = [kind.value for kind in LinkClass if kind is not LinkClass.UNKNOWN]
        parser.add_argument("--link", choices=links, help="the link class that the group must have")
        parser.add_argument("--json", action="store_true", help="answer in JSON on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["link"] and options["group"] is None:
            raise CommandError("--link says what a group must have: add --group N.", returncode=2)
        if options["group"] is not None and options["group"] < 1:
            raise CommandError("--group takes a number of GPUs, 1 or more.", returncode=2)
        reading = read_topology(read_file(options["file"], LARGEST_BYTES))
        answer = answer_topology(reading, options["model"])
        if options["model"] and generation_of(options["model"]) is None:
            answer["warnings"].append(f"no bandwidths are known of {options['model'][:60]}")
        if options["group"] is not None and not reading.error:
            wanted = LinkClass(options["link"]) if options["link"] else None
            answer["best_group"] = find_group(reading, options["group"], wanted)
        if options["json"]:
            self.stdout.write(json.dumps(answer))
        if reading.error:
            raise CommandError(f"{name_of(options['file'])}: {reading.error}.", returncode=2)
        if not options["json"]:
            self.tell("\n".join(tell(answer)))


def tell(answer: dict[str, Any]) -> Iterator[str]:
    """The reading for people: the matrix with its NUMA nodes, then what it means."""
    state = "complete" if answer["complete"] else "INCOMPLETE: cut or damaged, or links are not told"
    yield f"{answer['gpus']} GPUs, vendor {answer['vendor'] or 'unknown'}, {answer['nics']} NICs, {state}"
    if answer["links"] is not None:
        yield from _grid(answer)
    elif answer["numa"] is not None:
        yield "NUMA node of each GPU: " + " ".join(_word(node) for node in answer["numa"])
    for kind, groups in answer["link_groups"].items():
        yield f"linked by {kind}{_or_nearer(kind)}: " + "  ".join(
            ",".join(map(str, group)) for group in groups
        )
    for code, rate in (answer["bandwidth"] or {}).items():
        yield f"{code}: {rate['stated'] if rate else 'bandwidth not known'}"
    if answer.get("nvlink_of_a_gpu"):
        yield f"all NVLinks of one GPU: {answer['nvlink_of_a_gpu']}"
    if best := answer.get("best_group"):
        yield _tell_group(best)
    yield from (f"warning: {warning}" for warning in answer["warnings"])


def _or_nearer(kind: str) -> str:
    """A group of a class holds those of the nearer ones too."""
    return "" if kind == LinkClass.NVLINK else " or nearer"


def _grid(answer: dict[str, Any]) -> Iterator[str]:
    numa = answer["numa"] or [None] * answer["gpus"]
    heads = ["", *answer["names"], *answer["nic_names"], "NUMA"]
    nic_links = answer["nic_links"] or [[]] * answer["gpus"]
    rows = [
        [name, *map(_word, links), *map(_word, nics), _word(node)]
        for name, links, nics, node in zip(answer["names"], answer["links"], nic_links, numa, strict=False)
    ]
    widths = [max(len(row[at]) if at < len(row) else 0 for row in (heads, *rows)) for at in range(len(heads))]
    for row in (heads, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()


def _word(value: Any) -> str:
    return "?" if value is None else str(value)


def _tell_group(best: dict[str, Any]) -> str:
    if best["gpus"] is None:
        return f"best group of {best['count']}: none: {best['why']}"
    tied = f", tied by {best['class']} or better" if best["class"] else ""
    return f"best group of {best['count']}: GPUs {','.join(map(str, best['gpus']))}{tied}"
