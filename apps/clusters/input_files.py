"""The door for files that people hand to a command: bounded, unpacked where packed, in UTF-8.

What is no text is refused by name. Not in here: what the text means.
"""

from __future__ import annotations

import codecs
import os
import select
import stat
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from apps.clusters.errors import BadDump
from apps.planner.plain import one_line

LARGEST_BYTES = 2 * 1024**3
LARGEST_OTHER = 64 * 1024**2
"""Of a text that is not JSON: reading any other form takes far more memory and time for the same size."""
BLOCK = 1 << 20
SECONDS_FOR_A_WRITER = 10
MOST_PACKED = 200
"""How many times its size a packed file may unpack to: text of kubectl packs some 20 to 60 times."""
MOST_MEMBERS = 10_000
"""Packed files one after the other in one: each costs time, even an empty one."""
GZIP = b"\x1f\x8b"
ARCHIVES = (
    (b"PK\x03\x04", "a zip archive"),
    (b"\x7fELF", "a program"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd"),
    (b"\xfd7zXZ", "packed with xz"),
    (b"BZh", "packed with bzip2"),
    (b"\x89PNG", "a picture"),
    (b"%PDF", "a PDF"),
    (b"SQLite format 3", "a database"),
)
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def name_of(path: str) -> str:
    """How a sentence names the file."""
    return "standard input" if path == "-" else one_line(path, 200)


def read_file(path: str, most_bytes: int = LARGEST_OTHER, *, name: str = "") -> str:
    """The text of a file; "-" is standard input. name: what people call it. Raises BadDump."""
    return read_bytes(path, most_bytes, name=name).decode("utf-8")


def read_bytes(path: str, most_bytes: int = LARGEST_BYTES, *, name: str = "") -> bytearray:
    """The same as UTF-8 without a byte order mark."""
    name = one_line(name, 200) or name_of(path)
    try:
        with _open(path, name, most_bytes) as file:
            return _joined(_checked(_unpacked(_blocks(file), name), name), name, most_bytes)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its name is no name of a file"
        raise BadDump(f"{name} cannot be read: {why}.") from error


def _open(path: str, name: str, most_bytes: int) -> BinaryIO:
    if path == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise BadDump("standard input is closed: name a file, or give it something to read.")
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0) if _has_number() else sys.stdin.buffer
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        why_not = _why_not(number, name, most_bytes)
        if why_not:
            raise BadDump(why_not)
        # What claims to be an ordinary file and has nothing to say (/proc/kmsg) shall not be waited for.
        os.set_blocking(number, stat.S_ISFIFO(os.fstat(number).st_mode))
        return os.fdopen(number, "rb", buffering=0)
    except BaseException:
        os.close(number)
        raise


def _why_not(number: int, name: str, most_bytes: int) -> str:
    """One sentence why what was opened is not to be read; "" if it is."""
    found = os.fstat(number)
    if stat.S_ISREG(found.st_mode):
        return _too_large(name, most_bytes) if found.st_size > most_bytes else ""
    if stat.S_ISDIR(found.st_mode):
        return f"{name} is a directory: name a file in it."
    if not stat.S_ISFIFO(found.st_mode):
        return f"{name} is a device or a socket, no file."
    if not select.select([number], [], [], SECONDS_FOR_A_WRITER)[0]:
        return f"{name} is a pipe that nobody has written to for {SECONDS_FOR_A_WRITER} seconds."
    return ""


def _has_number() -> bool:
    """Whether standard input is a real file, and not one that a program put in its place."""
    try:
        return sys.stdin.fileno() >= 0
    except (OSError, ValueError, AttributeError):
        return False


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(BLOCK):
        yield block


def _unpacked(blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    first = next(blocks, b"")
    if not first.startswith(GZIP):
        yield first
        yield from blocks
        return
    packed = unpacked = members = 0
    opened = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    block: bytes | None = first
    while block is not None:
        packed += len(block)
        while block and not opened.eof:
            text = _decompressed(opened, block, name)
            unpacked += len(text)
            if unpacked > max(packed * MOST_PACKED, 64 * BLOCK):
                raise BadDump(
                    f"{name} unpacks to more than {MOST_PACKED} times its size: unpack it yourself."
                )
            yield text
            block = opened.unconsumed_tail
            if opened.eof and opened.unused_data:
                # Several packed files one after the other unpack to one text.
                members += 1
                if members > MOST_MEMBERS:
                    raise BadDump(f"{name} is more than {MOST_MEMBERS} packed files: unpack it yourself.")
                block, opened = opened.unused_data, zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        block = next(blocks, None)
    if not opened.eof:
        raise BadDump(f"{name} is damaged: its gzip ends early.")


def _decompressed(opened: zlib._Decompress, block: bytes, name: str) -> bytes:
    try:
        return opened.decompress(block, BLOCK)
    except zlib.error:
        raise BadDump(f"{name} is damaged: its gzip cannot be unpacked.") from None


def _checked(blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The blocks in UTF-8, or refused: in words, where something else is known by its first bytes."""
    first = next(blocks, b"")
    for magic, what in ARCHIVES:
        if first.startswith(magic):
            raise BadDump(f"{name} is {what}, no text: unpack it or dump it anew.")
    is_wide = first.startswith(UTF_16)
    decoder = codecs.getincrementaldecoder("utf-16" if is_wide else "utf-8")("strict")
    blocks = _after(first.removeprefix(codecs.BOM_UTF8), blocks)
    done = 0
    for block in blocks:
        try:
            text = decoder.decode(block)
        except UnicodeDecodeError as error:
            raise BadDump(_no_text(name, done + error.start)) from None
        if "\x00" in text:
            raise BadDump(f"{name} is binary, or damaged: there is a NUL character in it.")
        done += len(block)
        yield text.encode() if is_wide else block
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise BadDump(_no_text(name, done)) from None


def _after(first: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from blocks


def _no_text(name: str, at: int) -> str:
    return f"{name} is not UTF-8 text (at byte {at}): save it as UTF-8, or write it anew."


def _joined(blocks: Iterator[bytes], name: str, most_bytes: int) -> bytearray:
    """One piece of memory that grows: a list of blocks and what is joined from it would take twice that."""
    data, most = bytearray(), most_bytes
    for block in blocks:
        if not data:
            start = block.lstrip()[:1]
            most = most_bytes if start in (b"{", b"[") else min(most_bytes, LARGEST_OTHER)
        data += block
        if len(data) > most:
            raise BadDump(_too_large(name, most, "" if most == most_bytes else " and not JSON"))
    return data


def _too_large(name: str, most_bytes: int, what: str = "") -> str:
    return f"{name} is larger than {most_bytes >> 20} MiB{what}: dump fewer objects at once."
