"""Parses durations: `30s`, `15m`, `24h`, `7d`."""

import re
from datetime import timedelta

#: Unit → its length in milliseconds, the longest unit first.
_MILLISECONDS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_DURATION = re.compile(r"(?:[0-9]{1,15}(?:ms|s|m|h|d|w))+")


def parse_duration(text: str) -> timedelta:
    """Parse `30s`, `24h`, `7d`, `1h30m` or `500ms`; raises `ValueError` for other text, also for a bare number."""
    if _DURATION.fullmatch(text.strip()) is None:
        raise ValueError(f"not a duration: {text[:40]!r} (like 30s, 15m, 24h, 7d)")
    parts = re.findall(r"(\d+)(ms|[smhdw])", text)
    try:
        return timedelta(milliseconds=sum(int(count) * _MILLISECONDS[unit] for count, unit in parts))
    except OverflowError:
        raise ValueError(f"too long a duration: {text[:40]!r}") from None


def show_duration(duration: timedelta | None) -> str:
    """Return a duration in its largest whole unit, as `parse_duration` reads it; None is `unlimited`."""
    if duration is None:
        return "unlimited"
    ms = milliseconds(duration)
    unit = next(unit for unit, size in _MILLISECONDS.items() if unit != "w" and ms % size == 0)
    return f"{ms // _MILLISECONDS[unit]}{unit}"


def milliseconds(duration: timedelta) -> int:
    """Return the duration in whole milliseconds, Kafka's unit."""
    return duration // timedelta(milliseconds=1)
