"""Parses times that users give: `2026-11-21T01:02:03Z`, `2026-11-21`, or `10m` for ten minutes ago."""

import re
import time

from cqrs_cli.core.messages.timestamps import parse_timestamp, rfc3339
from cqrs_cli.settings.durations import milliseconds, parse_duration

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def parse_moment(text: str) -> int:
    """Return the milliseconds since the epoch of `text`: a time (RFC 3339 with an offset), a day (its start in UTC), or
    a duration before now, `2h` or `2h ago`. Raises `ValueError` for any other text.
    """
    return _parse(text, -1, " ago", "10m for ten minutes ago")


def parse_deadline(text: str) -> int:
    """Return milliseconds since the epoch of a future time, as `parse_moment` does, but a duration counts from now:
    `2h` or `2h from now`.

    Raises `ValueError` also for a time in the past.
    """
    moment = _parse(text, 1, " from now", "10m for in ten minutes")
    if moment < (now := time.time_ns() // 1_000_000):
        raise ValueError(f"{text[:40]!r} is in the past: it is {rfc3339(now)}")
    return moment


def _parse(text: str, direction: int, suffix: str, example: str) -> int:
    """Parse a time or a duration. `direction`: 1 for durations after now, -1 for durations before now. A duration may
    end with `suffix`.
    """
    try:
        duration = parse_duration(text.removesuffix(suffix))
        return time.time_ns() // 1_000_000 + direction * milliseconds(duration)
    except ValueError:
        pass
    try:
        return parse_timestamp(f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text)
    except ValueError:
        raise ValueError(
            f"not a time: {text[:40]!r} (like 2026-11-21T01:02:03Z, 2026-11-21, or {example})"
        ) from None
