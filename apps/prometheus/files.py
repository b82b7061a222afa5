"""The text of a file about metrics: bounded, unpacked if gzip, in UTF-8 or the UTF-16 that Windows writes."""

from __future__ import annotations

import codecs
import sys
import zlib
from pathlib import Path

from apps.prometheus.errors import BadMetrics

LARGEST_BYTES = 32 * 2**20
GZIP = b"\x1f\x8b"
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_metrics_file(path: str, most_bytes: int = LARGEST_BYTES) -> str:
    """path "-": standard input. Raises BadMetrics."""
    name = name_of(path)
    try:
        if path == "-":
            raw = sys.stdin.buffer.read(most_bytes + 1)
        else:
            with Path(path).open("rb") as file:
                raw = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        raise BadMetrics(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    return text_of(name, raw, most_bytes)


def name_of(path: str) -> str:
    return "standard input" if path == "-" else path


def text_of(name: str, raw: bytes, most_bytes: int = LARGEST_BYTES) -> str:
    """The text of bytes that were read up to one more than `most_bytes`. Raises BadMetrics."""
    if raw.startswith(GZIP):
        raw = _unpacked(name, raw, most_bytes)
    if len(raw) > most_bytes:
        raise BadMetrics(f"{name} is larger than {most_bytes // 2**20} MiB: give fewer series at once.")
    try:
        text = raw.decode("utf-16" if raw.startswith(UTF_16) else "utf-8-sig")
    except UnicodeDecodeError:
        raise BadMetrics(
            f"{name} is no text. Give an exporter's text, an answer of Prometheus or CSV."
        ) from None
    if "\x00" in text:
        raise BadMetrics(f"{name} is no text: it has NUL characters in it.")
    return text


def _unpacked(name: str, raw: bytes, most_bytes: int) -> bytes:
    opened = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        text = opened.decompress(raw, most_bytes + 1)
    except zlib.error as error:
        raise BadMetrics(f"{name} is damaged: its gzip cannot be unpacked.") from error
    if not opened.eof and len(text) <= most_bytes:
        raise BadMetrics(f"{name} is damaged: its gzip ends early.")
    return text
