"""What a webhook configuration must say: endpoints, review versions, readable match conditions."""

from __future__ import annotations

from typing import Any

from apps.simulator.api_server.expressions import UnsupportedExpression, compile_expression
from apps.simulator.api_server.statuses import Cause, bad_value, required

CONDITION_NAMES = frozenset(("object", "oldObject", "request"))


def default_webhooks(configuration: dict[str, Any]) -> None:
    for webhook in configuration.get("webhooks", ()):
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("timeoutSeconds", 10)
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        for rule in webhook.get("rules", ()):
            rule.setdefault("scope", "*")


def webhook_causes(configuration: dict[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    for index, webhook in enumerate(configuration.get("webhooks", ())):
        causes += _one(f"webhooks[{index}]", webhook)
    return causes


def _one(path: str, webhook: dict[str, Any]) -> list[Cause]:
    causes = []
    if webhook.get("name", "").count(".") < 2:
        why = "should be a domain with at least three segments separated by dots"
        causes.append(bad_value(f"{path}.name", webhook.get("name", ""), why))
    if not webhook.get("admissionReviewVersions"):
        why = "must specify one of v1, v1beta1"
        causes.append(required(f"{path}.admissionReviewVersions", why))
    if webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
        causes.append(required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
    if not 1 <= webhook["timeoutSeconds"] <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        causes.append(bad_value(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], why))
    config = webhook.get("clientConfig") or {}
    if bool(config.get("url")) == bool(config.get("service")):
        causes.append(required(f"{path}.clientConfig", "exactly one of url or service is required"))
    elif config.get("url") and not config["url"].startswith("https://"):
        why = "'https' is the only allowed URL scheme"
        causes.append(bad_value(f"{path}.clientConfig.url", config["url"], why))
    for number, condition in enumerate(webhook.get("matchConditions", ())):
        where, text = f"{path}.matchConditions[{number}].expression", condition.get("expression", "")
        try:
            compile_expression(text, CONDITION_NAMES)
        except UnsupportedExpression as error:
            causes.append(bad_value(where, text, f"compilation failed: {error}"))
    return causes
