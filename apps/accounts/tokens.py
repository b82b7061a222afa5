"""Making, renaming, revoking and recognising API tokens. Their secret is shown once and kept nowhere.

A token speaks for its person: what it may do is asked again at every request, of his roles as they are
then. A changed password, or a person who is switched off, ends all of his tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Model, Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from knox.crypto import hash_token
from knox.settings import CONSTANTS

from apps.accounts.errors import LoginTooOld, NotVisible, TokenNameTaken, TokenRefused, UnusableToken
from apps.accounts.limits import Scope, TokenLimits, limits_of
from apps.accounts.models import ApiToken, User
from apps.accounts.queries import cluster_model, clusters_visible_to, tokens_for
from apps.accounts.rates import require_rate
from apps.accounts.services import denials_recorded
from apps.audit import services as audit

USE_NOTED_EVERY = timedelta(minutes=1)
Check = Callable[[ApiToken], None]


@denials_recorded()
def create_token(
    *,
    actor: User,
    name: str,
    scopes: Collection[str],
    valid_days: int,
    clusters: Collection[str] | None = None,
    logged_in_at: datetime | None,
) -> tuple[ApiToken, str]:
    """The new token and its secret. clusters: names of those it is limited to, None for no limit.

    logged_in_at: when the session that asks was logged in. Raises LoginTooOld, UnusableToken,
    TokenNameTaken, TooManyRequests, NotVisible.
    """
    _require_browser(actor, logged_in_at, "make a token")
    require_rate("tokens", actor)
    name = _usable_name(name)
    wanted = [scope for scope in Scope.values if scope in set(scopes)]
    if not wanted or set(scopes) - set(Scope.values):
        raise UnusableToken(f"scopes: choose at least one of {', '.join(Scope.values)}")
    if not 1 <= valid_days <= settings.API_TOKEN_LONGEST_DAYS:
        raise UnusableToken(f"valid_days is {valid_days}: take 1 to {settings.API_TOKEN_LONGEST_DAYS}")
    chosen = None if clusters is None else _visible(actor, clusters)
    try:
        return _create(actor, name, wanted, valid_days, chosen)
    except IntegrityError as error:
        raise TokenNameTaken(f"you have a token {name!r} already: revoke it, or take another name") from error


@transaction.atomic(durable=True)
def _create(
    actor: User, name: str, scopes: list[str], valid_days: int, chosen: list[Model] | None
) -> tuple[ApiToken, str]:
    owner = User.objects.select_for_update(no_key=True).get(pk=actor.pk)
    live = ApiToken.objects.filter(user=owner, revoked_at=None, expiry__gt=Now()).count()
    if live >= settings.API_TOKENS_A_PERSON:
        raise UnusableToken(f"you have {live} tokens already: revoke one that you no longer need")
    token, secret = ApiToken.objects.create(
        user=owner,
        expiry=timedelta(days=valid_days),
        name=name,
        scopes=scopes,
        is_limited=chosen is not None,
        password_stamp=password_stamp(owner),
    )
    token.clusters.set(chosen or [])
    detail = {**_told(token), "scopes": scopes, "expires_at": f"{token.expiry:%Y-%m-%dT%H:%M:%SZ}"}
    detail["clusters"] = "every cluster" if chosen is None else [one.name for one in chosen]  # type: ignore[attr-defined]
    audit.record(actor=actor, action="token.created", subject=token, detail=detail)
    return token, secret


@denials_recorded()
@transaction.atomic(durable=True)
def rename_token(*, actor: User, token_id: int, name: str, check: Check | None = None) -> ApiToken:
    """check: called with the locked row, to refuse what is no longer as it was looked at."""
    token = _lock(actor, token_id)
    if check is not None:
        check(token)
    old, token.name = token.name, _usable_name(name)
    taken = ApiToken.objects.filter(user_id=token.user_id, name=token.name, revoked_at=None)
    if taken.exclude(pk=token.pk).exists():
        raise TokenNameTaken(f"there is a token {token.name!r} already: take another name")
    if old != token.name:
        try:
            token.save(update_fields=["name"])
        except IntegrityError as error:  # another token took the name at this moment
            raise TokenNameTaken(f"there is a token {token.name!r} already: take another name") from error
        audit.record(
            actor=actor, action="token.renamed", subject=token, detail={**_told(token), "old_name": old}
        )
    return token


@denials_recorded()
@transaction.atomic(durable=True)
def revoke_token(*, actor: User, token_id: int) -> ApiToken:
    """End a token at once: one's own, or, for an admin of the whole console, anybody's."""
    token = _lock(actor, token_id)
    if token.revoked_at is None:
        token.revoked_at = timezone.now()
        token.save(update_fields=["revoked_at"])
        audit.record(actor=actor, action="token.revoked", subject=token, detail=_told(token))
    return token


def recognise_token(secret: bytes) -> User:
    """The person that a token speaks for, with the token's limits. Raises TokenRefused."""
    try:
        text = secret.decode("ascii")
    except UnicodeDecodeError as error:
        raise TokenRefused("this is no token") from error
    digest = hash_token(text)
    found = ApiToken.objects.filter(token_key=text[: CONSTANTS.TOKEN_KEY_LENGTH]).select_related("user")
    token = next((one for one in found if constant_time_compare(one.digest, digest)), None)
    if token is None:
        raise TokenRefused("there is no such token")
    if why := ended_because(token):
        raise TokenRefused(f"this token no longer holds: {why}")
    long_ago = Q(last_used_at=None) | Q(last_used_at__lt=Now() - USE_NOTED_EVERY)
    ApiToken.objects.filter(long_ago, pk=token.pk).update(last_used_at=Now())
    person: User = token.user
    ids = frozenset(token.clusters.values_list("pk", flat=True)) if token.is_limited else None
    person.token = TokenLimits(token.pk, token.name, frozenset(token.scopes), ids)
    return person


def ended_because(token: ApiToken) -> str:
    """Why it opens nothing any more; "" while it does."""
    if token.revoked_at is not None:
        return "it was revoked"
    if token.expiry is None or token.expiry <= timezone.now():
        return "it has expired"
    if not token.user.is_active:
        return "its person is switched off"
    if not constant_time_compare(token.password_stamp, password_stamp(token.user)):
        return "its person's password was changed"
    return ""


def password_stamp(person: User) -> str:
    """Tells one password from the next, and nothing about it: the hash of its salted hash."""
    return hashlib.sha256(person.password.encode()).hexdigest()


def require_session(actor: Any, act: str) -> None:
    """Raises LoginTooOld for somebody who speaks through a token."""
    if limits_of(actor) is not None:
        raise LoginTooOld(
            f"a token cannot {act}: log in to the browser", actor=actor, action=act, subject="tokens"
        )


def _require_browser(actor: User, logged_in_at: datetime | None, act: str) -> None:
    require_session(actor, act)
    oldest = timezone.now() - timedelta(seconds=settings.TOKEN_LOGIN_MAX_AGE_SECONDS)
    if logged_in_at is None or logged_in_at < oldest:
        raise LoginTooOld(
            f"your login is too long ago to {act}: log in again", actor=actor, action=act, subject="tokens"
        )


def _lock(actor: User, token_id: int) -> ApiToken:
    require_session(actor, "change tokens")
    is_seen = tokens_for(actor).filter(pk=token_id).exists()
    if not is_seen:
        raise NotVisible(f"there is no token {token_id} that you can see")
    return (
        ApiToken.objects.select_for_update(of=("self",), no_key=True).select_related("user").get(pk=token_id)
    )


def _visible(actor: User, names: Collection[str]) -> list[Model]:
    seen = cluster_model()._default_manager.filter(pk__in=clusters_visible_to(actor), name__in=names)
    chosen = list(seen.order_by("name"))
    missing = set(names) - {one.name for one in chosen}  # type: ignore[attr-defined]
    if missing:
        raise NotVisible(f"there is no cluster {min(missing)!r} that you can see")
    if not chosen:
        raise UnusableToken("clusters: name at least one, or leave it out for all that you see")
    return chosen


def _usable_name(name: str) -> str:
    name = " ".join(name.split())
    if not 1 <= len(name) <= 60 or not name.isprintable():
        raise UnusableToken("name: give it 1 to 60 printable characters that say what it is for")
    return name


def _told(token: ApiToken) -> dict[str, Any]:
    return {"name": token.name, "of": token.user.get_username()}
