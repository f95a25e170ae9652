"""Formatting of counts, durations, rates and hints for people."""

import difflib
from collections.abc import Iterable

#: The weight of the newest rate in an exponential moving average.
_NEWEST_WEIGHT = 0.4


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 command`, `2,000 commands`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """Return `did you mean amount?` for the most similar known name, regardless of case; empty if none is similar."""
    names_by_lower = {known_name.lower(): known_name for known_name in known_names}
    matches = difflib.get_close_matches(name.lower(), names_by_lower, 1)
    return f"did you mean {names_by_lower[matches[0]]}?" if matches else ""


def rough_time(seconds: float) -> str:
    """Return a duration in the largest unit that gives at least 2: `90 s`, `5 min`, `3 h`, `12 days`."""
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def smoothed(average: float, measurement: float) -> float:
    """Return the moving average after one more measurement; `average` is the previous average, 0 at the start."""
    return (
        max(0.0, measurement)
        if average == 0.0
        else (1 - _NEWEST_WEIGHT) * average + _NEWEST_WEIGHT * max(0.0, measurement)
    )
