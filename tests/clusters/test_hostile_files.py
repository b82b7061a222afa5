"""What is no file of the right kind: one clean line and exit code 2 from every command that reads files."""

import gzip
import json
import os
import socket
import sys

import pytest
from django.core.management import CommandError, call_command

from apps.clusters import input_files
from apps.clusters.errors import BadDump
from apps.clusters.input_files import BLOCK, read_bytes, read_file
from apps.planner.plain import one_line
from tests.kube.objects import node

COMMANDS = {
    "read_dump": (),
    "read_topology": (),
    "read_metrics": (),
    "read_mig": (),
    "measure": (),
    "make_plan": ("--goal", "free-nodes"),
}
TEXT = json.dumps({"apiVersion": "v1", "kind": "List", "items": [node()]})


@pytest.fixture
def file(tmp_path):
    def write(data):
        path = tmp_path / "input"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return str(path)

    return write


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.encode("utf-16"),
        gzip.compress(TEXT.encode()),
        gzip.compress(TEXT[:50].encode()) + gzip.compress(TEXT[50:].encode()),
    ],
    ids=["plain", "byte order mark", "UTF-16 as Windows writes it", "gzip", "two gzips"],
)
def test_text_is_read_however_it_is_packed(file, data):
    assert read_file(file(data)) == TEXT


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"kind": "\xff"}', r"is not UTF-8 text \(at byte 10\)"),
        (b'{"kind": "caf\xc3', "is not UTF-8 text"),
        (b'{"kind": "\x00"}', "there is a NUL character in it"),
        (b"PK\x03\x04 and so on", "is a zip archive"),
        (b"\x7fELF\x02\x01", "is a program"),
        (gzip.compress(TEXT.encode())[:-20], "its gzip ends early"),
        (b"\x1f\x8b" + b"x" * 50, "its gzip cannot be unpacked"),
        (gzip.compress(b"{" + b" " * (65 * BLOCK)), "unpacks to more than 200 times its size"),
        (gzip.compress(b"") * 10_002, "more than 10000 packed files"),
    ],
    ids=["no UTF-8", "half a letter", "NUL", "zip", "program", "cut gzip", "bad gzip", "bomb", "members"],
)
def test_what_is_no_text_is_refused_by_name(file, data, says):
    with pytest.raises(BadDump, match=says):
        read_bytes(file(data))


def test_a_file_that_is_too_large_is_not_read(file, tmp_path):
    with pytest.raises(BadDump, match="larger than 1 MiB"):
        read_bytes(file(b'{"a": "' + b"x" * 2 * BLOCK + b'"}'), BLOCK)
    with (tmp_path / "sparse").open("wb") as sparse:
        sparse.truncate(2**40)
    with pytest.raises(BadDump, match="larger than 2048 MiB"):
        read_bytes(str(tmp_path / "sparse"))


def test_text_that_is_not_json_may_be_less_long(file, monkeypatch):
    monkeypatch.setattr(input_files, "LARGEST_OTHER", BLOCK)
    assert len(read_bytes(file(b'{"a": "' + b"x" * 2 * BLOCK + b'"}'))) > 2 * BLOCK
    with pytest.raises(BadDump, match="larger than 1 MiB and not JSON"):
        read_bytes(file(b"a: " + b"x" * 2 * BLOCK))


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_file_is_one_line_and_exit_2(command, tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        hidden = str(tmp_path / "no\x1b[31m\u202efile")
        for path, says in (
            (str(tmp_path), "is a directory"),
            ("/dev/zero", "is a device"),
            (str(tmp_path / "s"), "cannot be read"),
            (hidden, "⟨U\\+001B⟩.*⟨U\\+202E⟩.*No such file"),
            ("a\x00b", "no name of a file"),
        ):
            with pytest.raises(CommandError, match=says) as caught:
                call_command(command, path, *COMMANDS[command])
            assert caught.value.returncode == 2
            assert str(caught.value).isprintable()
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CommandError, match="standard input is closed"):
        call_command(command, "-", *COMMANDS[command])


def test_a_pipe_is_read_and_one_without_a_writer_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(input_files, "SECONDS_FOR_A_WRITER", 0.05)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(BadDump, match="nobody has written to"):
        read_bytes(str(path))
    writer = os.open(path, os.O_RDWR)
    os.write(writer, b"some text")
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.close(writer)
    try:
        assert read_file(f"/dev/fd/{reader}") == "some text"
    finally:
        os.close(reader)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html><body>502 Bad Gateway</body></html>",
        b"[" * 100_000,
        b"x" * 10_000_000,
        b'{"kind": "List", "items": ' + b"[" * 50_000,
        b"a: &a [b]\nc: *a\n\xe2\x80\xae",
        b"!!python/object/apply:os.system [id]",
        b"\x1b]0;title\x07",
        b"\n" * 300_000,
    ],
    ids=["empty", "page", "deep", "one long line", "deep list", "aliases", "tag", "terminal", "no line"],
)
def test_text_of_another_kind_is_one_clean_line_and_exit_2(command, file, data, capsys):
    with pytest.raises(CommandError) as caught:
        call_command(command, file(data), *COMMANDS[command])
    assert caught.value.returncode == 2
    assert 10 < len(str(caught.value)) < 900
    assert str(caught.value).isprintable()
    assert all(letter.isprintable() or letter == "\n" for letter in capsys.readouterr().out)


@pytest.mark.parametrize("command", ["read_dump", "measure"])
def test_names_that_would_steer_a_terminal_are_shown_as_what_they_are(command, file, capsys):
    raw = node("n\x1b[31mred\u202e", labels={"nvidia.com/gpu.product": "A\x1b]0;t\x07"})
    call_command(command, file(json.dumps({"apiVersion": "v1", "kind": "List", "items": [raw]})))
    told = capsys.readouterr().out
    assert told.strip()
    assert all(letter.isprintable() or letter == "\n" for letter in told)


def test_one_line_is_one_line_whatever_it_is_made_of():
    assert one_line("a\n b\t\u202ec\x1b") == "a b ⟨U+202E⟩c⟨U+001B⟩"
    assert len(one_line("ab " * 10_000)) < 700
