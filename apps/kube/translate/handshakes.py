"""Whether a device plugin of HAMi or Volcano still answers, as the node's handshake annotations tell.

The scheduler writes `Requesting_TIME`, the plugin answers `Reported TIME` within seconds; a question that
stays unanswered means that the plugin is gone, and `Deleted_TIME` that the scheduler gave the node up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

KEY = re.compile(r"^(?:hami\.io|4pd\.io)/node-handshake(?:-(?P<family>.+))?$")
VOLCANO_KEY = "volcano.sh/node-vgpu-handshake"
TEXT = re.compile(
    r"^(?P<state>[A-Za-z]+)[_ ](?P<day>\d{4}[.-]\d\d[.-]\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(?:\.\d+)?"
    r"(?: ?(?P<zone>[+-]\d{4}|Z))?"
)
UNANSWERED_SECONDS = 300.0  # a plugin answers within half a minute, HAMi itself waits one


class Spoken(StrEnum):
    REPORTED = "Reported"
    REQUESTING = "Requesting"
    DELETED = "Deleted"


@dataclass(frozen=True, slots=True)
class Handshake:
    """at: seconds since the epoch, None if it cannot be read. Schedulers write their own clock's time
    without its zone; it is taken for UTC, which is what clocks in containers show."""

    family: str
    key: str
    state: Spoken | None
    at: float | None
    text: str

    def is_over_at(self) -> float | None:
        """From then on the question counts as unanswered."""
        if self.state is Spoken.REQUESTING and self.at is not None:
            return self.at + UNANSWERED_SECONDS
        return None

    def is_alive(self, *, offered: int | None, taken_at: float) -> bool | None:
        """Whether the plugin lives; None if nothing says so.

        offered: units of its resource that the kubelet hands out, None where the node's amounts are
        not known. A plugin that offers nothing while it owes an answer is gone.
        """
        if self.state is Spoken.DELETED:
            return False
        if self.state is Spoken.REQUESTING:
            over = self.is_over_at()
            return offered != 0 and over is not None and taken_at < over
        return True if self.state is Spoken.REPORTED and offered != 0 else None


def read_handshakes(annotations: Mapping[str, str]) -> dict[str, Handshake]:
    """By the family of devices: "nvidia", "mlu", "Ascend910B4", …; Volcano's is "volcano-vgpu"."""
    found: dict[str, Handshake] = {}
    for key in sorted(annotations):
        match = KEY.match(key)
        if match is None and key != VOLCANO_KEY:
            continue
        family = (match["family"] or "nvidia") if match else "volcano-vgpu"
        found[family] = _read(family, key, annotations[key])
    return found


def handshake_times(annotations: Mapping[str, str]) -> list[float]:
    return [one.at for one in read_handshakes(annotations).values() if one.at is not None]


def _read(family: str, key: str, text: str) -> Handshake:
    match = TEXT.match(text.strip())
    word = match["state"] if match else re.split(r"[_ ]", text.strip(), maxsplit=1)[0]
    state = next((one for one in Spoken if one.value.lower() == word.lower()), None)
    return Handshake(family[:100], key, state, _seconds(match) if match else None, text[:100])


def _seconds(match: re.Match[str]) -> float | None:
    moment = f"{match['day'].replace('.', '-')} {match['time']}"
    zone = (match["zone"] or "+0000").replace("Z", "+0000")
    try:
        return datetime.strptime(f"{moment} {zone}", "%Y-%m-%d %H:%M:%S %z").astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return None
