"""What the console's credential may do, asked in as few requests as one look at a cluster needs.

One SelfSubjectRulesReview lists what is granted in a namespace. What it does not show, or cannot show for
certain, is asked exactly, so a refusal is always the API server's own answer to that very question.

Not in here: which rights are needed, and any memory from one look to the next.
"""

from __future__ import annotations

from apps.kube.errors import Forbidden, Invalid, NotFound
from apps.kube.gateway import Gateway, Kind
from apps.kube.reviews import Rules

NOWHERE = "-"
"""No namespace can bear this name, so what is granted in it is granted for the whole cluster: the rules of a
namespace that exists would count those as well that are granted there alone."""


class OwnRights:
    """Answers stand as long as this object: make a new one for each look."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._rules: dict[str, Rules] = {}
        self._answers: dict[tuple[str, str, str, str, str, str], bool] = {}

    def may(
        self, verb: str, kind: Kind, *, namespace: str = "", subresource: str = "", name: str = ""
    ) -> bool:
        """As `Gateway.may`. Raises KubeError where the cluster does not answer."""
        if self._rules_of(namespace or NOWHERE).grant(verb, kind, subresource=subresource, name=name):
            return True
        question = (verb, kind.group, kind.plural, namespace, subresource, name)
        if question not in self._answers:
            self._answers[question] = self._gateway.may(
                verb, kind, namespace=namespace, subresource=subresource, name=name
            )
        return self._answers[question]

    def _rules_of(self, namespace: str) -> Rules:
        """Of a list that is incomplete in one namespace no other is asked for: it is the authorizer's way."""
        if any(not rules.is_complete for rules in self._rules.values()):
            return Rules()
        if namespace not in self._rules:
            try:
                self._rules[namespace] = self._gateway.own_rules(namespace)
            except (Forbidden, NotFound, Invalid):
                self._rules[namespace] = Rules()  # it is not to be had here
        return self._rules[namespace]
