"""Splits JSON text written by somebody else into Kubernetes objects, without a tree of the whole.

A list of kubectl's is split in one pass over its bytes, and its objects are not even decoded. Text that
the strict parser refuses (NaN, half a surrogate, several documents one after the other, a file that was
cut) is walked value by value instead, more slowly, in bounded memory. Not in here: what the objects mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

Json = dict[str, Any]
Raw = msgspec.Raw
Bytes = bytes | bytearray
LARGEST_OBJECT = 8 * 1024 * 1024
"""Of one object in bytes. An API server stores at most some 1.5 MiB, which its JSON may state in three."""
LARGEST_INDEX = 1 << 30
BYTES_OF_AN_ENTRY = 56
BLANKS = re.compile(r"[ \t\n\r]*")
LONGEST_INTEGER = 1000
NEWLINE = b"\n"
TOO_LARGE = f"an object in it is larger than {LARGEST_OBJECT >> 20} MiB, which no API server keeps"
CUT = "it ends in the middle of an object: the file was cut"


class BadJson(Exception):
    """Not JSON, or not JSON that can be taken; the message says where."""


class _Outer(msgspec.Struct):
    kind: str = ""
    apiVersion: str = ""  # noqa: N815 - as the API spells it
    items: list[Raw] | None = None


_decode_outer = msgspec.json.Decoder(_Outer).decode


def read_json(
    data: Bytes, found: Callable[[Raw | Json], None], listed: Callable[[str, str], None] = lambda *_: None
) -> None:
    """Hands over the objects of the text one by one: still as text, or read, whichever is at hand.

    listed: is told kind and version of a list, after its objects were handed over.
    Raises BadJson.
    """
    outer = _split(data)
    if outer is None:
        _Walk(data, found, listed).documents()
    elif outer.items is None or not outer.kind.endswith("List"):
        found(Raw(_of_bearable_size(data)))
    else:
        for one in outer.items:
            found(_of_bearable_size(one))
        listed(outer.kind, outer.apiVersion)


def open_raw(raw: Raw | Bytes) -> Any:
    """The value of a piece of JSON, as json.loads reads it. Raises BadJson."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        return _lenient.decode(bytes(raw).decode("utf-8", "replace"))
    except RecursionError:
        raise BadJson("nested too deeply") from None
    except ValueError as error:
        raise BadJson(str(error)) from None


def _split(data: Bytes) -> _Outer | None:
    # Each entry of an index of tiny values would take more than the value itself.
    if data.count(b",") * BYTES_OF_AN_ENTRY > LARGEST_INDEX:
        return None
    try:
        return _decode_outer(data)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _of_bearable_size(raw: Any) -> Any:
    if len(memoryview(raw)) > LARGEST_OBJECT:
        raise BadJson(TOO_LARGE)
    return raw


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= LONGEST_INTEGER else float(text)


_lenient = json.JSONDecoder(strict=False, parse_int=_integer)


class _Walk:
    """Reads value after value out of a text, looking at no more than one bearable object at a time."""

    def __init__(self, data: Bytes, found: Callable[[Any], None], listed: Callable[[str, str], None]) -> None:
        self._data = data
        self._found, self._listed = found, listed
        self._begin = self._end = 0
        self._window, self._at = "", 0
        self._load(0)

    def documents(self) -> None:
        while first := self._peek():
            if first == "{":
                self._document()
            elif first == "[":
                self._members()
            else:
                raise self._bad("this is no JSON object")

    def _document(self) -> None:
        """One object; the members of its `items` are handed over, or it itself where it has none."""
        document: Json = {}
        left, is_list, is_first = LARGEST_OBJECT, False, True
        self._at += 1
        while self._peek() != "}":
            if not is_first:
                self._expect(",")
            is_first = False
            key, size = self._value()
            if not isinstance(key, str):
                raise self._bad("a key of an object is no text")
            self._expect(":")
            if key == "items" and self._peek() == "[":
                self._members()
                is_list = True
                continue
            document[key], more = self._value()
            left -= size + more
            if left < 0:
                raise self._bad(TOO_LARGE)
        self._at += 1
        if is_list:
            self._listed(str(document.get("kind", "")), str(document.get("apiVersion", "")))
        else:
            self._found(document)

    def _members(self) -> None:
        self._at += 1
        is_first = True
        while self._peek() != "]":
            if not is_first:
                self._expect(",")
            self._found(self._value()[0])
            is_first = False
        self._at += 1

    def _value(self) -> tuple[Any, int]:
        """The next value and how long it is."""
        self._peek()
        try:
            value, end = _lenient.raw_decode(self._window, self._at)
        except RecursionError:
            raise self._bad("nested too deeply") from None
        except json.JSONDecodeError as error:
            raise self._bad(self._why(error), error.pos) from None
        except ValueError as error:
            raise self._bad(str(error)) from None
        size = end - self._at
        if size > LARGEST_OBJECT:
            raise self._bad(TOO_LARGE)
        self._at = end
        return value, size

    def _why(self, error: json.JSONDecodeError) -> str:
        if self._end < len(self._data) and len(self._window) - self._at > LARGEST_OBJECT:
            return TOO_LARGE
        is_cut = error.pos >= len(self._window) - 1 or error.msg.startswith("Unterminated string")
        return CUT if is_cut else error.msg

    def _peek(self) -> str:
        """The next character that is no blank, "" at the end."""
        while True:
            self._at = BLANKS.match(self._window, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._window) // 2 or self._end == len(self._data):
                return self._window[self._at : self._at + 1]
            self._load(self._begin + len(self._window[: self._at].encode("utf-8", "surrogatepass")))

    def _load(self, begin: int) -> None:
        """Looks at the text from there on. The last character of the window may be half a one: where that
        matters the object is too large anyway."""
        self._begin, self._end = begin, min(begin + 2 * LARGEST_OBJECT, len(self._data))
        self._window, self._at = self._data[begin : self._end].decode("utf-8", "replace"), 0

    def _expect(self, mark: str) -> None:
        found = self._peek()
        if found != mark:
            raise self._bad(f"{mark!r} is missing" if found else CUT)
        self._at += 1

    def _bad(self, why: str, at: int | None = None) -> BadJson:
        before = self._window[: self._at if at is None else at]
        return BadJson(f"line {self._data.count(NEWLINE, 0, self._begin) + before.count(chr(10)) + 1}: {why}")
