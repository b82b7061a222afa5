"""Turns a dump into a packed picture in a program of its own.

Reading a large dump takes many times its size in memory, which Python never gives back to the machine: the
web process that took the upload shall stay small. Run as `python -m apps.clusters.dump_packing NAME FILE …`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.clusters import pictures
from apps.clusters.dumps import read_dump_texts
from apps.clusters.errors import BadDump
from apps.clusters.input_files import read_bytes
from apps.clusters.packing import Packer

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120


@dataclass(frozen=True, slots=True)
class PackedPicture:
    """taken_at: Unix seconds. body: as `pictures.pack` makes it."""

    taken_at: float
    digest: str
    summary: dict[str, Any]
    body: bytes


def pack_dump(paths: Sequence[tuple[str, Path]]) -> PackedPicture:
    """paths: (what people call the file, where it lies). Raises BadDump."""
    names = [word for name, path in paths for word in (name, str(path))]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "apps.clusters.dump_packing", *names],
            cwd=ROOT,
            capture_output=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise BadDump(
            f"reading it took more than {SECONDS} s: dump fewer kinds, or use the command"
        ) from None
    if done.returncode == 2:
        raise BadDump(done.stderr.decode(errors="replace").strip())
    if done.returncode:
        raise BadDump(f"the program that reads dumps ended with {done.returncode}: is the dump too large?")
    head, _, body = done.stdout.partition(b"\n")
    return PackedPicture(**json.loads(head), body=body)


def main(words: Sequence[str]) -> int:
    try:
        texts = [
            (name, read_bytes(path, name=name)) for name, path in zip(words[::2], words[1::2], strict=True)
        ]
        picture = read_dump_texts(texts)
    except BadDump as error:
        print(error, file=sys.stderr)
        return 2
    packer = Packer()
    head = {
        "taken_at": picture.taken_at,
        "digest": packer.digest(picture),
        "summary": pictures.summarise(picture),
    }
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + packer.pack(picture))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
