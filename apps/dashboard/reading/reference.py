"""The OpenAPI document as a page reads it: operations by resource, and the shapes that they speak of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator

METHODS = ("get", "post", "put", "patch", "delete")
JSON = ("application/json", "text/event-stream")
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """kind: its type in words. shape: name of the component that says more, "" without."""

    name: str
    kind: str
    shape: str = ""
    where: str = ""
    is_required: bool = False
    words: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    code: str
    words: str
    kind: str
    shape: str


@dataclass(frozen=True, slots=True)
class Operation:
    """scope: what a token needs; "" where only the browser's session may."""

    key: str
    method: str
    path: str
    words: str
    scope: str
    parameters: tuple[Field, ...]
    body: Field | None
    examples: tuple[tuple[str, str], ...]
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Resource:
    name: str
    words: str
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    words: str
    fields: tuple[Field, ...]
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    title: str
    words: str
    resources: tuple[Resource, ...] = field(default=())
    shapes: tuple[Shape, ...] = field(default=())


@cache
def reference() -> Reference:
    """Made once for each program: the document follows from the code alone."""
    return read_document(SchemaGenerator().get_schema(request=None, public=True))


def read_document(document: Document) -> Reference:
    tags: dict[str, list[Operation]] = {one["name"]: [] for one in document.get("tags", ())}
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                tag = methods[method].get("tags", ["other"])[0]
                tags.setdefault(tag, []).append(_operation(method, path, methods[method]))
    words = {one["name"]: one["description"] for one in document.get("tags", ())}
    shapes = document["components"]["schemas"]
    return Reference(
        title=document["info"]["title"],
        words=document["info"].get("description", ""),
        resources=tuple(Resource(name, words.get(name, ""), tuple(found)) for name, found in tags.items()),
        shapes=tuple(_shape(name, shapes[name]) for name in sorted(shapes)),
    )


def _operation(method: str, path: str, facts: Document) -> Operation:
    scope = next((way["token"][0] for way in facts.get("security", ()) if way.get("token")), "")
    body, examples = _content(facts.get("requestBody", {}).get("content", {}))
    return Operation(
        key=facts["operationId"],
        method=method.upper(),
        path=path,
        words=facts.get("description", ""),
        scope=scope,
        parameters=tuple(_parameter(one) for one in facts.get("parameters", ())),
        body=body,
        examples=examples,
        answers=tuple(_answer(code, one) for code, one in sorted(facts["responses"].items())),
    )


def _parameter(facts: Document) -> Field:
    kind, shape = _kind(facts["schema"])
    where, needed = facts["in"], facts.get("required", False)
    return Field(facts["name"], kind, shape, where, needed, facts.get("description", ""))


def _content(content: Document) -> tuple[Field | None, tuple[tuple[str, str], ...]]:
    for media in JSON:
        if media in content:
            kind, shape = _kind(content[media].get("schema", {}))
            examples = content[media].get("examples", {})
            written = [(name, json.dumps(one["value"], indent=2)) for name, one in examples.items()]
            return Field("", kind, shape), tuple(written)
    return None, ()


def _answer(code: str, facts: Document) -> Answer:
    content = facts.get("content", {})
    schema = next((one.get("schema", {}) for one in content.values()), None)
    kind, shape = _kind(schema) if schema is not None else ("", "")
    return Answer(code, facts.get("description", ""), kind, shape)


def _shape(name: str, facts: Document) -> Shape:
    needed = facts.get("required", ())
    fields = []
    for key, schema in facts.get("properties", {}).items():
        kind, shape = _kind(schema)
        fields.append(Field(key, kind, shape, "", key in needed, schema.get("description", "")))
    values = tuple(str(value) for value in facts.get("enum", ()))
    return Shape(name, facts.get("description", ""), tuple(fields), values)


def _kind(schema: Document) -> tuple[str, str]:
    """(its type in words, the component that says more)."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return name, name
    for key in ("allOf", "oneOf", "anyOf"):
        if key in schema:
            parts = [_kind(one) for one in schema[key]]
            return " or ".join(kind for kind, _ in parts), next((name for _, name in parts if name), "")
    if "enum" in schema:
        return "one of " + ", ".join(str(value) for value in schema["enum"]), ""
    kinds = schema.get("type", "anything")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "array" in kinds:
        kind, name = _kind(schema.get("items", {}))
        return _joined(kinds, "array", f"list of {kind}"), name
    if isinstance(inner := schema.get("additionalProperties"), dict) and "object" in kinds:
        kind, name = _kind(inner)
        return _joined(kinds, "object", f"object of {kind}"), name
    return " or ".join(kinds) + (f" ({schema['format']})" if "format" in schema else ""), ""


def _joined(kinds: list[str], one: str, words: str) -> str:
    return " or ".join(words if kind == one else kind for kind in kinds)
