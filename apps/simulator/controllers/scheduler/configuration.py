"""A KubeSchedulerConfiguration as the simulated scheduler reads it: its extenders, and its sample of nodes.

Field names, defaults and refusals are those of `kubescheduler.config.k8s.io/v1`; what this scheduler cannot
follow (profiles, plug-ins) is refused, not overlooked. Not here: how an extender is called (extender).
"""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Json = Mapping[str, Any]

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
LARGEST_BYTES = 1024 * 1024
_WITHOUT_EFFECT = ("clientConnection", "parallelism")
"""Fields of a real file that mean nothing to one program in one process: accepted, so one file serves."""
_TEXTS = ("urlPrefix", "filterVerb", "prioritizeVerb", "preemptVerb", "bindVerb")
_SWITCHES = ("enableHTTPS", "nodeCacheCapable", "ignorable")
_TLS = ("insecure", "serverName", "caFile", "caData", "certFile", "certData", "keyFile", "keyData")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_USUAL_TIMEOUT_SECONDS = 5.0
_MOST_WEIGHT = 2**63 // 100


@dataclass(frozen=True)
class ExtenderSettings:
    """One entry of `extenders:`. managed: resource names; empty concerns every pod. ignored: those of them
    that the scheduler itself does not count. tls: None for plain HTTP."""

    url_prefix: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    timeout_seconds: float = _USUAL_TIMEOUT_SECONDS
    takes_names: bool = False
    is_ignorable: bool = False
    managed: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    tls: ssl.SSLContext | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SchedulerSettings:
    """percentage: of the nodes, how many fitting ones are enough; None for the scheduler's own rule. elects:
    it keeps the Lease that says who leads, as one with a configuration does unless that says otherwise."""

    extenders: tuple[ExtenderSettings, ...] = ()
    percentage: int | None = None
    elects: bool = False

    @property
    def ignored_resources(self) -> frozenset[str]:
        return frozenset().union(*(each.ignored for each in self.extenders))


def read_scheduler_settings(path: str) -> SchedulerSettings:
    """Raises ValueError, one line that names file, field and remedy; OSError where it cannot be read."""
    raw = Path(path).read_bytes()
    if len(raw) > LARGEST_BYTES:
        raise ValueError(f"{path}: {len(raw)} bytes are too many for a {KIND}: give its file alone")
    try:
        return parse_scheduler_settings(yaml.safe_load(raw))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path} is no YAML ({line}): give a {KIND}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def parse_scheduler_settings(told: Any) -> SchedulerSettings:
    """told: what the YAML holds. Raises ValueError naming the field."""
    file = _mapping(told, KIND)
    found = (file.get("apiVersion"), file.get("kind"))
    if found != (API_VERSION, KIND):
        raise ValueError(f"it is {found[0]} {found[1]}: give a {KIND} of {API_VERSION}")
    known = ("apiVersion", "kind", "extenders", "percentageOfNodesToScore", "profiles")
    _refuse_unknown(file, (*known, "leaderElection", *_WITHOUT_EFFECT), "")
    _check_profiles(file.get("profiles"))
    entries = file["extenders"] if file.get("extenders") is not None else []
    if not isinstance(entries, list):
        raise ValueError("extenders is no list: write each extender as an entry of it")
    extenders = tuple(_read_extender(entry, f"extenders[{at}]") for at, entry in enumerate(entries))
    if sum(1 for each in extenders if each.bind_verb) > 1:
        raise ValueError("extenders: two have a bindVerb, and only one may bind: take it from the others")
    percentage = file.get("percentageOfNodesToScore")
    if percentage is not None:
        percentage = _whole(percentage, "percentageOfNodesToScore", 0, 100)
    election = _mapping(file.get("leaderElection") or {}, "leaderElection")
    elects = _typed(election, "leaderElect", bool, True, "leaderElection")
    return SchedulerSettings(extenders, percentage or None, elects)


def _check_profiles(told: Any) -> None:
    if told not in (None, [], [{"schedulerName": "default-scheduler"}]):
        raise ValueError(
            "profiles: only one named default-scheduler, without plugins, is simulated: leave profiles out"
        )


def _read_extender(told: Any, where: str) -> ExtenderSettings:
    entry = _mapping(told, where)
    known = (*_TEXTS, *_SWITCHES, "weight", "httpTimeout", "managedResources", "tlsConfig")
    _refuse_unknown(entry, known, f"{where}.")
    texts = {name: _typed(entry, name, str, "", where) for name in _TEXTS}
    switches = {name: _typed(entry, name, bool, False, where) for name in _SWITCHES}
    if not re.match(r"https?://[^/\s]+", texts["urlPrefix"]):
        raise ValueError(f"{where}.urlPrefix is {texts['urlPrefix']!r}: give http:// or https:// and a host")
    weight = _whole(entry.get("weight", 0), f"{where}.weight", 0, _MOST_WEIGHT)
    if texts["prioritizeVerb"] and not weight:
        raise ValueError(f"{where}.weight is 0 beside a prioritizeVerb: give a weight of 1 or more")
    managed, ignored = _read_resources(entry.get("managedResources"), f"{where}.managedResources")
    is_https = switches["enableHTTPS"] or texts["urlPrefix"].startswith("https://")
    return ExtenderSettings(
        url_prefix=texts["urlPrefix"].rstrip("/"),
        filter_verb=texts["filterVerb"],
        prioritize_verb=texts["prioritizeVerb"],
        preempt_verb=texts["preemptVerb"],
        bind_verb=texts["bindVerb"],
        weight=weight,
        timeout_seconds=_seconds(entry.get("httpTimeout"), f"{where}.httpTimeout"),
        takes_names=switches["nodeCacheCapable"],
        is_ignorable=switches["ignorable"],
        managed=managed,
        ignored=ignored,
        tls=_read_tls(entry.get("tlsConfig"), f"{where}.tlsConfig") if is_https else None,
    )


def _read_resources(told: Any, where: str) -> tuple[frozenset[str], frozenset[str]]:
    if told is not None and not isinstance(told, list):
        raise ValueError(f"{where} is no list: write each as `- name: nvidia.com/gpu`")
    managed, ignored = set(), set()
    for at, each in enumerate(told or []):
        here = f"{where}[{at}]"
        entry = _mapping(each, here)
        _refuse_unknown(entry, ("name", "ignoredByScheduler"), f"{here}.")
        name = _typed(entry, "name", str, "", here)
        if "/" not in name or name in managed:
            why = "given twice" if name in managed else "no extended resource such as nvidia.com/gpu"
            raise ValueError(f"{here}.name is {name!r}, {why}: give each resource's full name once")
        managed.add(name)
        if _typed(entry, "ignoredByScheduler", bool, False, here):
            ignored.add(name)
    return frozenset(managed), frozenset(ignored)


def _read_tls(told: Any, where: str) -> ssl.SSLContext:
    """Without an authority nothing is verified, as the stock scheduler does."""
    entry = _mapping(told or {}, where)
    _refuse_unknown(entry, _TLS, f"{where}.")
    authority = _pem(entry, "ca", where)
    context = (
        ssl.create_default_context(cadata=authority or None) if authority else ssl.create_default_context()
    )
    if entry.get("insecure") or not authority:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if entry.get("serverName"):
        raise ValueError(f"{where}.serverName is not simulated: put that name into urlPrefix")
    if any(entry.get(name) for name in ("certData", "keyData")):
        raise ValueError(f"{where}: certData and keyData are not simulated: give certFile and keyFile")
    if entry.get("certFile"):
        context.load_cert_chain(str(entry["certFile"]), str(entry.get("keyFile") or "") or None)
    return context


def _pem(entry: Json, name: str, where: str) -> str:
    data = entry.get(f"{name}Data")
    if not data:
        return Path(str(entry[f"{name}File"])).read_text() if entry.get(f"{name}File") else ""
    try:
        return base64.b64decode(str(data), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{where}.{name}Data is no PEM in base64: encode the whole file") from error


def _seconds(told: Any, where: str) -> float:
    if told in (None, 0, "0"):
        return _USUAL_TIMEOUT_SECONDS
    if not isinstance(told, str) or not _DURATION.fullmatch(told):
        raise ValueError(f"{where} is {told!r}: write a duration such as 200ms or 5s")
    return (
        sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(told)) or _USUAL_TIMEOUT_SECONDS
    )


def _mapping(told: Any, where: str) -> Json:
    if not isinstance(told, dict):
        raise ValueError(f"{where} is no mapping: write it as `name: value` lines")
    return told


def _refuse_unknown(told: Json, known: tuple[str, ...], prefix: str) -> None:
    for name in told:
        if name not in known:
            raise ValueError(f"{prefix}{name} is not a field that is simulated: use {', '.join(known)}")


def _typed(told: Json, name: str, kind: type, usual: Any, where: str) -> Any:
    found = told.get(name, usual)
    if not isinstance(found, kind):
        wanted = {str: "text", bool: "true or false"}[kind]
        raise ValueError(f"{where}.{name} is {found!r}: write {wanted}")
    return found


def _whole(told: Any, where: str, low: int, high: int) -> int:
    if not isinstance(told, int) or isinstance(told, bool) or not low <= told <= high:
        raise ValueError(f"{where} is {told!r}: write a whole number from {low} to {high}")
    return told
