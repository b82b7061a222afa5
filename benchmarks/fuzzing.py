"""Mutates inputs: bytes, lines and, where a text is JSON, values of its tree. Same seed, same input."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

LONGEST = 2 * 1024 * 1024
NASTY_BYTES = (
    b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\x1b[31m", b"\xe2\x80\xae", b"\xd9\xa1", b"\r", b"\n\n",
    b"{", b"}", b"[" * 200, b'"', b"'", b"\\", b"&a ", b"*a", b"!!x ", b"<<: ", b"- ", b": ", b",,", b"|",
    b"NaN", b"-1", b"1e999", b"9" * 400, b"0x1f", b"1e-400", b"Infinity", b"---\n", b"...", b"%", b"=", b";",
    b":", b"\t", b"#",
)  # fmt: skip
NASTY_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 10**30, 2**63, 1.5, float("nan"), float("inf"), -0.0, "", " ", "x", "-1",
    "NaN", "1" * 400, "0", "9223372036854775807", "\x00", "\ud800", "\u202e", "a\nb", "\u0661", [], {},
    {"": ""}, {"a": {"a": {}}}, [1, "a", {}], "2026-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59",
    "{}", "[]", "null", '{"version":1}', "A" * 5000, ["x"] * 300, "../..", "=1+1", "<b>", "GPU-0,1,2:3;4",
    "1Gi", [None], "GPU-0", "1e999", [[]],
)  # fmt: skip
NASTY_NUMBERS = (b"-1", b"0", b"999999999999", b"1e999", b"NaN", b"", b"65536")


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One input: a seed, changed in a few places."""
    data = rng.choice(seeds)
    if rng.random() < 0.5:
        data = _mutate_tree(rng, data)
        if rng.random() < 0.7:
            return data[:LONGEST]
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        data = rng.choice(_CHANGES)(rng, data, seeds)[:LONGEST]
    return data


def _mutate_tree(rng: random.Random, data: bytes) -> bytes:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return data
    for _ in range(rng.choice((1, 1, 2, 5))):
        tree = _change_value(rng, tree)
    text = json.dumps(tree, indent=rng.choice((None, None, 1)), ensure_ascii=rng.random() < 0.8)
    return text.encode("utf-8", "surrogatepass")


def _change_value(rng: random.Random, tree: Any) -> Any:
    """A walk down to a random place, and something else there."""
    if isinstance(tree, dict) and tree and rng.random() < 0.93:
        key = rng.choice(list(tree))
        if rng.random() < 0.06:
            return {one: value for one, value in tree.items() if one != key}
        if rng.random() < 0.06:
            return {**tree, str(rng.choice(NASTY_VALUES)): tree[key]}
        return {**tree, key: _change_value(rng, tree[key])}
    if isinstance(tree, list) and tree and rng.random() < 0.93:
        at = rng.randrange(len(tree))
        if rng.random() < 0.1:
            return tree * rng.choice((2, 3)) if len(tree) < 1000 else tree[:at]
        return [*tree[:at], _change_value(rng, tree[at]), *tree[at + 1 :]]
    if isinstance(tree, str) and tree and rng.random() < 0.6:
        inner = tree.encode("utf-8", "surrogatepass")
        if tree[0] in "{[":
            inner = _mutate_tree(rng, inner)
        changed = rng.choice(_CHANGES)(rng, inner, (inner,))
        return changed.decode("utf-8", "replace")
    return rng.choice(NASTY_VALUES)


def _place(rng: random.Random, data: bytes) -> int:
    return rng.randrange(len(data) + 1)


def _flip(rng: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    at = _place(rng, data)
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _cut(rng: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    return data[: _place(rng, data)] if rng.random() < 0.5 else data[_place(rng, data) :]


def _remove(rng: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    at = _place(rng, data)
    return data[:at] + data[at + rng.choice((1, 2, 8, 100)) :]


def _insert(rng: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    at = _place(rng, data)
    return data[:at] + rng.choice(NASTY_BYTES) * rng.choice((1, 1, 1, 50)) + data[at:]


def _repeat(rng: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    start = _place(rng, data)
    end = min(start + rng.choice((1, 10, 100, 1000)), len(data))
    return data[:end] + data[start:end] * rng.choice((1, 3, 100, 2000)) + data[end:]


def _splice(rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    other = rng.choice(seeds)
    return data[: _place(rng, data)] + other[_place(rng, other) :]


def _shuffle_lines(rng: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[at], lines[to] = lines[to], lines[at]
    return b"\n".join(lines)


def _replace_number(rng: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    places = [at for at in range(len(data[:20000])) if 48 <= data[at] <= 57]
    if not places:
        return data
    at = rng.choice(places)
    return data[:at] + rng.choice(NASTY_NUMBERS) + data[at + 1 :]


_CHANGES = (_flip, _flip, _cut, _remove, _insert, _insert, _repeat, _splice, _shuffle_lines, _replace_number)
