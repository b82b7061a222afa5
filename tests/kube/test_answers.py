"""What an answer means, and which answers are no API server's word. No request is made."""

import json

import pytest

from apps.kube import errors
from apps.kube.answers import error_of, read_json, read_named, read_page
from apps.kube.connection import Answer, Request

NODE = Request("GET", "/api/v1/nodes/gpu-1")
STEERING = Request("GET", "/apis/defrag.gpu.internal/v1alpha1/namespaces/gpu-defrag/steerings/a")
STATUS = b'{"kind": "Status", "reason": "NotFound", "message": "nodes \\"gpu-1\\" not found"}'


@pytest.mark.parametrize(
    ("body", "request_", "kind"),
    [
        (STATUS, NODE, errors.NotFound),
        (b"404 page not found\n", STEERING, errors.NotFound),
        (b"404 page not found\n", NODE, errors.ServerFailed),
        (b"default backend - 404", STEERING, errors.ServerFailed),
        (b"<html><h1>404 Not Found</h1></html>", NODE, errors.ServerFailed),
        (b'{"error": "no route"}', NODE, errors.ServerFailed),
        (b"", NODE, errors.ServerFailed),
    ],
)
def test_only_the_api_servers_own_404_says_that_something_is_not_there(body, request_, kind):
    assert type(error_of(Answer(404, {}, body), request_)) is kind


@pytest.mark.parametrize(
    "body", [b"{}", b'{"kind": "Status"}', b'{"metadata": {"name": "gpu-2"}}', b'{"metadata": []}']
)
def test_an_answer_about_something_else_tells_nothing_of_an_object(body):
    with pytest.raises(errors.ServerFailed, match="not the object that was asked for"):
        read_named(Answer(200, {}, body), NODE, "gpu-1")


@pytest.mark.parametrize("body", [b"{}", b'{"kind": "Status"}', b'{"items": {}}'])
def test_an_answer_without_items_is_no_empty_list(body):
    with pytest.raises(errors.ServerFailed, match="is no list"):
        read_page(Answer(200, {}, body), Request("GET", "/api/v1/nodes"))


def test_a_list_of_nothing_may_say_null():
    assert read_page(Answer(200, {}, b'{"items": null}'), Request("GET", "/api/v1/nodes"))["items"] is None


@pytest.mark.parametrize(
    "value",
    ["a\0b", json.dumps({"reason": "a\0b"}), "half a pair \ud83d", "a smile \U0001f600 and a backslash \\"],
)
def test_what_no_database_stores_does_not_come_through_the_door(value):
    found = read_json(json.dumps({"value": value}).encode())["value"]
    assert "\0" not in found
    assert "\\u0000" not in found
    assert found.encode() == value.replace("\0", "\ufffd").replace("\\u0000", "\\ufffd").encode(
        "utf-8", "replace"
    )


def test_a_refusal_in_plain_bytes_holds_no_nul():
    assert "\0" not in str(error_of(Answer(503, {}, b"a\0b"), NODE))
