"""Who is asking, and what he may do: bearer tokens with denied (or solely allowed) verbs and resources."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from apps.simulator.api_server.statuses import ApiError, unauthorized

PATTERN = re.compile(r"[?\[]|[^*]\*|\*[^*/]")
"""More of a pattern than RBAC has: it knows "*" and "*/scale"."""
Rule = tuple[str, ...]  # verb, resource ("pods", "pods/eviction", "*"), and a namespace if it matters


@dataclass(frozen=True)
class User:
    """A user's name and rules. `allowed` is None where all is allowed that is not denied."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)
    denied: tuple[Rule, ...] = ()
    allowed: tuple[Rule, ...] | None = None

    def may(self, verb: str, resource: str, namespace: str = "") -> bool:
        if any(_covers(rule, verb, resource, namespace) for rule in self.denied):
            return False
        if self.allowed is None:
            return True
        return any(_covers(rule, verb, resource, namespace) for rule in self.allowed)

    def granted_in(self, namespace: str) -> tuple[list[tuple[str, str]], bool]:
        """(verb, resource) of all that is granted there, and whether that is the whole truth: what is denied
        and what goes by a pattern cannot be listed, as the rules of a webhook cannot on a real server."""
        if self.allowed is None:
            return [("*", "*")], not self.denied
        there = [rule for rule in self.allowed if all(fnmatchcase(namespace, one) for one in rule[2:3])]
        listable = [rule for rule in there if not any(PATTERN.search(part) for part in rule[:2])]
        return [(rule[0], rule[1]) for rule in listable], not self.denied and len(listable) == len(there)


NOBODY_DENIED: tuple[Rule, ...] = (("*", "*"),)
NOBODY_TOKEN, NOBODY = "nobody-token", User("nobody", denied=NOBODY_DENIED)
ADMINS = "system:masters"
ADMIN = User("kubernetes-admin", (ADMINS, "system:authenticated"))


def _covers(rule: Rule, verb: str, resource: str, namespace: str) -> bool:
    wanted = (verb, resource, namespace)
    return all(fnmatchcase(have, pattern) for pattern, have in zip(rule, wanted, strict=False))


def user_from_json(data: dict[str, Any]) -> User:
    allowed = data.get("allowed")
    return User(
        str(data["user"]),
        tuple(data.get("groups") or ("system:authenticated",)),
        _rules(data.get("denied") or ()),
        None if allowed is None else _rules(allowed),
    )


def _rules(rules: Iterable[Iterable[str]]) -> tuple[Rule, ...]:
    return tuple(tuple(str(part) for part in rule) for rule in rules)


def authenticate(tokens: dict[str, User], authorization: str) -> User:
    scheme, _, token = authorization.partition(" ")
    user = tokens.get(token.strip()) if scheme.lower() == "bearer" else None
    if user is None:
        raise unauthorized()
    return user


def refuse_access(user: User, *, verb: str, resource: str, group: str, namespace: str, name: str) -> ApiError:
    """The 403 that an RBAC authorizer gives."""
    plural = resource.partition("/")[0]
    shown = f"{plural}.{group}" if group else plural
    subject = f'{shown} "{name}"' if name else shown
    place = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    message = (
        f'{subject} is forbidden: User "{user.name}" cannot {verb} resource "{resource}" '
        f'in API group "{group}" {place}'
    )
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = plural
    return ApiError(403, message, "Forbidden", details)
