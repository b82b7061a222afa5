"""Admission webhooks: a real HTTPS webhook is asked, its patch taken, its failures treated by the policy."""

import asyncio
import base64
import json

import pytest
from aiohttp import web

from apps.simulator.api_server.certificates import issue_certificate
from apps.simulator.api_server.evaluation import EvaluationError
from apps.simulator.api_server.expressions import UnsupportedExpression, compile_expression
from tests.simulator.api_server.conftest import NS, pod

CONFIGS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
GATE = {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": "defrag.gpu.internal/steer"}]}
OWNER = (
    "object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && o.uid == 'u1')"
)
OWNED = {
    "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u1", "controller": True}
    ]
}


class Webhook:
    """An HTTPS server that answers AdmissionReviews; `answer` and `hangs` are a test's to change."""

    def __init__(self):
        self.certificate = issue_certificate()
        self.asked = []
        self.answer = {"allowed": True}
        self.hangs = False

    async def handle(self, request):
        review = await request.json()
        self.asked.append(review["request"])
        if self.hangs:
            await self.ended.wait()
        response = {"uid": review["request"]["uid"], **self.answer}
        return web.json_response(
            {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
        )

    def patches_with(self, *operations):
        patch = base64.b64encode(json.dumps(operations).encode()).decode()
        self.answer = {"allowed": True, "patchType": "JSONPatch", "patch": patch}

    async def stop(self):
        self.ended.set()
        await self.runner.cleanup()

    async def start(self):
        self.ended = asyncio.Event()
        self.runner = web.ServerRunner(web.Server(self.handle), shutdown_timeout=2)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=self.certificate.server_context())
        await site.start()
        self.url = f"https://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/steer"

    def configuration(self, **settings):
        authority = base64.b64encode(self.certificate.ca_pem.encode()).decode()
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
        webhook = {
            "name": "steer.defrag.gpu.internal",
            "clientConfig": {"url": self.url, "caBundle": authority},
            "rules": [rule],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 1,
            **settings,
        }
        return {"metadata": {"name": "steering"}, "webhooks": [webhook]}


@pytest.fixture
def webhook(api, server_thread):
    hook = Webhook()
    server_thread.run(hook.start())
    yield hook
    server_thread.run(hook.stop())


def test_the_webhooks_patch_gates_the_owners_pods_and_no_others(api, webhook):
    webhook.patches_with(GATE)
    conditions = [{"name": "owner", "expression": OWNER}]
    assert api.post(CONFIGS, webhook.configuration(matchConditions=conditions)).code == 201
    gated = api.post(f"{NS}/pods", pod(metadata={"name": "", "generateName": "r-", **OWNED}))
    assert gated.json["spec"]["schedulingGates"] == [{"name": "defrag.gpu.internal/steer"}]
    assert gated.json["status"]["conditions"][0]["reason"] == "SchedulingGated"
    (request,) = webhook.asked
    assert request["operation"] == "CREATE"
    assert request["object"]["metadata"]["generateName"] == "r-"
    assert "name" not in request["object"]["metadata"]
    assert "uid" not in request["object"]["metadata"]
    assert "schedulingGates" not in api.post(f"{NS}/pods", pod("stranger")).json["spec"]
    assert len(webhook.asked) == 1


@pytest.mark.parametrize(("policy", "code"), [("Ignore", 201), ("Fail", 500)])
def test_a_hanging_webhook_costs_its_timeout_and_then_follows_the_policy(api, webhook, policy, code):
    webhook.hangs = True
    api.post(CONFIGS, webhook.configuration(failurePolicy=policy))
    reply = api.post(f"{NS}/pods", pod())
    assert reply.code == code
    if code == 500:
        assert 'failed calling webhook "steer.defrag.gpu.internal"' in reply.message
        assert "context deadline exceeded" in reply.message


def test_a_refused_connection_with_ignore_lets_the_pod_through(api, webhook, server_thread):
    api.post(CONFIGS, webhook.configuration(failurePolicy="Ignore"))
    server_thread.run(webhook.stop())
    assert api.post(f"{NS}/pods", pod()).code == 201


def test_a_certificate_of_another_authority_is_not_trusted(api, webhook):
    config = webhook.configuration(failurePolicy="Fail")
    other = base64.b64encode(issue_certificate().ca_pem.encode()).decode()
    config["webhooks"][0]["clientConfig"]["caBundle"] = other
    api.post(CONFIGS, config)
    assert api.post(f"{NS}/pods", pod()).code == 500
    assert webhook.asked == []


def test_a_webhook_may_deny(api, webhook):
    webhook.answer = {"allowed": False, "status": {"message": "not today", "code": 403}}
    api.post(CONFIGS, webhook.configuration())
    reply = api.post(f"{NS}/pods", pod())
    assert (reply.code, reply.message) == (
        403,
        'admission webhook "steer.defrag.gpu.internal" denied the request: not today',
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"objectSelector": {"matchLabels": {"app": "other"}}},
        {
            "namespaceSelector": {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}
                ]
            }
        },
        {
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/status"], "operations": ["*"]}
            ]
        },
        {"matchConditions": [{"name": "none", "expression": "object.metadata.name == 'x'"}]},
    ],
)
def test_what_does_not_match_is_not_sent(api, webhook, settings):
    api.post(CONFIGS, webhook.configuration(**settings))
    assert api.post(f"{NS}/pods", pod()).code == 201
    assert webhook.asked == []


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (
            {"matchConditions": [{"name": "c", "expression": "object.spec.unknownCall()"}]},
            "webhooks[0].matchConditions[0].expression",
        ),
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
        ({"timeoutSeconds": 60}, "webhooks[0].timeoutSeconds"),
        ({"clientConfig": {"url": "http://127.0.0.1/"}}, "webhooks[0].clientConfig.url"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(api, webhook, settings, field):
    reply = api.post(CONFIGS, webhook.configuration(**settings))
    assert reply.code == 422
    assert reply.json["details"]["causes"][0]["field"] == field


NAMES = frozenset(("object", "oldObject", "request", "params"))
POD = {
    "metadata": {"name": "p", "labels": {"a": "1"}, "ownerReferences": [{"uid": "u1", "controller": True}]}
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OWNER, True),
        ("!has(params.spec.podName) || object.metadata.?name.orValue('') == params.spec.podName", True),
        ("request.?subResource.orValue('') == ''", True),
        ("object.metadata.labels.all(k, k in ['a', 'b'] || k.startsWith('defrag.'))", True),
        ("size(object.metadata.ownerReferences) > 1 ? true : 'x' == \"y\"", False),
        ("object.metadata.ownerReferences[0].uid.matches('^u[0-9]$') && 1 + 2 * 3 == 7", True),
        ("object.metadata.ownerReferences.map(o, o.uid) == ['u1']", True),
        ("object.spec.nodeName == 'x' || true", True),
        ("request.?userInfo.?username.hasValue()", False),
    ],
)
def test_match_conditions_are_evaluated(text, expected):
    scope = {"object": POD, "oldObject": None, "request": {}, "params": {"spec": {}}}
    assert compile_expression(text, NAMES)(scope) is expected


def test_an_absent_field_is_an_error_when_it_is_read():
    with pytest.raises(EvaluationError, match="no such key: spec"):
        compile_expression("object.spec.nodeName == 'x'", NAMES)({"object": POD})


@pytest.mark.parametrize(
    "text",
    ["object.metadata.name.upperX()", "nosuch.name", "1 +", "object.metadata.#", "dyn(object)", "[1, 2"],
)
def test_what_is_not_supported_is_refused_when_it_is_parsed(text):
    with pytest.raises(UnsupportedExpression):
        compile_expression(text, NAMES)
