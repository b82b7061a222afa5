"""Admission webhooks, asked over HTTPS with an AdmissionReview: first the mutating, then the validating.

Only clientConfig.url can be reached from here; a clientConfig.service counts as a failed call.
"""

from __future__ import annotations

import base64
import json
import ssl
import uuid
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import aiohttp

from apps.simulator.api_server.calls import Call
from apps.simulator.api_server.cluster import Cluster
from apps.simulator.api_server.decoding import tidy_object
from apps.simulator.api_server.evaluation import EvaluationError, truth
from apps.simulator.api_server.expressions import compile_expression
from apps.simulator.api_server.patches import PatchRefused, json_patch
from apps.simulator.api_server.selectors import selector_matches
from apps.simulator.api_server.statuses import ApiError, DecodeError
from apps.simulator.api_server.strategies import default_object
from apps.simulator.api_server.webhook_rules import CONDITION_NAMES

MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"
Object = dict[str, Any]


class WebhookFailed(Exception):
    """The webhook could not be asked, or its answer could not be used."""


async def mutate(
    cluster: Cluster, call: Call, obj: Object, old: Object | None, *, unnamed: bool = False
) -> Object:
    """The object after all webhooks that apply to it; `unnamed` hides a name that was only now generated."""
    if call.kind.group == "admissionregistration.k8s.io":
        return obj
    for webhook in _webhooks(cluster, MUTATING):
        obj = await _consult(cluster, call, webhook, obj, old, unnamed=unnamed, mutating=True)
    for webhook in _webhooks(cluster, VALIDATING):
        await _consult(cluster, call, webhook, obj, old, unnamed=unnamed, mutating=False)
    return obj


def _webhooks(cluster: Cluster, storage: str) -> Iterator[Object]:
    table = cluster.store.table(storage)
    for key in list(table.order):
        stored = table.objects.get(key)
        if stored is not None:
            yield from stored.obj.get("webhooks", ())


async def _consult(
    cluster: Cluster,
    call: Call,
    webhook: Object,
    obj: Object,
    old: Object | None,
    *,
    unnamed: bool,
    mutating: bool,
) -> Object:
    operation = "CREATE" if old is None else "UPDATE"
    if not _rules_cover(webhook, call, operation) or not _selectors_cover(cluster, webhook, call, obj):
        return obj
    request = _review_request(call, operation, obj, old, unnamed=unnamed)
    ignores = webhook.get("failurePolicy") == "Ignore"
    try:
        if not _conditions_hold(webhook, request):
            return obj
        answer = await _post(cluster, webhook, request)
        _take_verdict(call, webhook, answer)
        return _patched(call, obj, answer) if mutating and answer.get("patch") else obj
    except (WebhookFailed, EvaluationError) as failure:
        if ignores:
            return obj
        message = f'Internal error occurred: failed calling webhook "{webhook["name"]}": {failure}'
        details = {"causes": [{"message": message.partition(": ")[2]}]}
        raise ApiError(500, message, "InternalError", details) from None


def _rules_cover(webhook: Object, call: Call, operation: str) -> bool:
    kind = call.kind
    resource = f"{kind.plural}/{call.subresource}" if call.subresource else kind.plural
    for rule in webhook.get("rules", ()):
        operations = rule.get("operations", ())
        if (
            ("*" in operations or operation in operations)
            and _any_matches(rule.get("apiGroups", ()), kind.group)
            and _any_matches(rule.get("apiVersions", ()), kind.version)
            and any(_resource_matches(pattern, resource) for pattern in rule.get("resources", ()))
            and rule.get("scope", "*") in ("*", "Namespaced" if kind.namespaced else "Cluster")
        ):
            return True
    return False


def _any_matches(patterns: list[str], value: str) -> bool:
    return "*" in patterns or value in patterns


def _resource_matches(pattern: str, resource: str) -> bool:
    """ "*" means all resources without subresources, "*/*" everything."""
    if "/" not in pattern and "/" in resource:
        return False
    if pattern.endswith("/*") and "/" not in resource:
        resource += "/"
    return fnmatchcase(resource, pattern)


def _selectors_cover(cluster: Cluster, webhook: Object, call: Call, obj: Object) -> bool:
    if not selector_matches(webhook.get("objectSelector") or {}, obj["metadata"].get("labels")):
        return False
    if not call.kind.namespaced:
        return True
    namespace = cluster.store.get("namespaces", "", call.namespace)
    labels = namespace.obj["metadata"].get("labels") if namespace else {}
    return selector_matches(webhook.get("namespaceSelector") or {}, labels)


def _review_request(call: Call, operation: str, obj: Object, old: Object | None, *, unnamed: bool) -> Object:
    kind = call.kind
    head = {"kind": kind.kind, "apiVersion": kind.api_version}
    shown = {**head, **obj}
    if old is None:  # the server gives these only after admission
        hidden = {"uid", "creationTimestamp", "generation", "resourceVersion"} | (
            {"name"} if unnamed else set()
        )
        shown["metadata"] = {k: v for k, v in obj["metadata"].items() if k not in hidden}
    group_kind = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    request: Object = {
        "uid": str(uuid.uuid4()),
        "kind": group_kind,
        "resource": resource,
        "requestKind": group_kind,
        "requestResource": resource,
        "name": shown["metadata"].get("name", ""),
        "namespace": call.namespace,
        "operation": operation,
        "userInfo": {"username": call.user.name, "groups": list(call.user.groups)},
        "object": shown,
        "oldObject": {**head, **old} if old is not None else None,
        "dryRun": call.dry_run,
        "options": {"kind": f"{operation.title()}Options", "apiVersion": "meta.k8s.io/v1"},
    }
    if call.subresource:
        request["subResource"] = request["requestSubResource"] = call.subresource
    return request


def _conditions_hold(webhook: Object, request: Object) -> bool:
    """One false condition is enough to leave the webhook out, even if another cannot be evaluated."""
    scope = {"object": request["object"], "oldObject": request["oldObject"], "request": request}
    failure: EvaluationError | None = None
    for condition in webhook.get("matchConditions", ()):
        try:
            if not truth(compile_expression(condition["expression"], CONDITION_NAMES)(scope)):
                return False
        except EvaluationError as error:
            failure = error
    if failure is not None:
        raise failure
    return True


@lru_cache(maxsize=64)
def _context(ca_bundle: str) -> ssl.SSLContext:
    if not ca_bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode())
    except (ValueError, ssl.SSLError) as error:
        raise WebhookFailed(f"unable to load root certificates: {error}") from None


async def _post(cluster: Cluster, webhook: Object, request: Object) -> Object:
    config = webhook.get("clientConfig") or {}
    url = config.get("url")
    if not url:
        raise WebhookFailed("failed to call webhook: there is no network to a Service from here")
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    seconds = webhook.get("timeoutSeconds", 10)
    try:
        async with cluster.http_client().post(
            url,
            json=review,
            params={"timeout": f"{seconds}s"},
            ssl=_context(config.get("caBundle", "")),
            timeout=aiohttp.ClientTimeout(total=seconds),
        ) as response:
            text = await response.text()
            if response.status != 200:
                raise WebhookFailed(
                    f"failed to call webhook: the server answered {response.status}: {text[:200]}"
                )
    except TimeoutError:
        raise WebhookFailed(f'failed to call webhook: Post "{url}": context deadline exceeded') from None
    except aiohttp.ClientError as error:
        raise WebhookFailed(f'failed to call webhook: Post "{url}": {error}') from None
    return _read_answer(text, request)


def _read_answer(text: str, request: Object) -> Object:
    try:
        answer = json.loads(text)["response"]
        fits = answer["uid"] == request["uid"] and isinstance(answer["allowed"], bool)
    except (ValueError, KeyError, TypeError) as error:
        raise WebhookFailed(f"received invalid webhook response: {error!r}") from None
    if not fits:
        raise WebhookFailed("received invalid webhook response: expected response.uid to be the request's")
    return answer


def _take_verdict(call: Call, webhook: Object, answer: Object) -> None:
    call.warnings.extend(str(warning) for warning in answer.get("warnings") or ())
    if answer["allowed"]:
        return
    status = answer.get("status") or {}
    why = status.get("message") or status.get("reason")
    message = f'admission webhook "{webhook["name"]}" denied the request'
    message += f": {why}" if why else " without explanation"
    raise ApiError(status.get("code") or 400, message, status.get("reason") or "")


def _patched(call: Call, obj: Object, answer: Object) -> Object:
    kind, kept = call.kind, obj["metadata"]
    if answer.get("patchType") != "JSONPatch":
        raise WebhookFailed("received invalid webhook response: patchType must be JSONPatch")
    try:
        operations = json.loads(base64.b64decode(answer["patch"]))
        whole = json_patch({"kind": kind.kind, "apiVersion": kind.api_version, **obj}, operations)
        result = tidy_object(kind, whole)
    except (ValueError, PatchRefused, DecodeError) as error:
        raise WebhookFailed(f"the patch cannot be applied: {error}") from None
    for field in ("name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion"):
        if field in kept:
            result["metadata"][field] = kept[field]
    default_object(kind, result)
    return result
