"""Numbers and times as people read them."""

#: The weight of the newest rate in a smoothed one.
_NEWEST = 0.4


def counted(count: int, thing: str) -> str:
    """`1 command`, `2,000 commands`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def rough_time(seconds: float) -> str:
    """`90 s`, `5 min`, `3 h`, `12 days`: in the largest unit of which there are at least two."""
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def smoothed(before: float, now: float) -> float:
    """A rate over the last few looks; `before`: the smoothed one of the look before, 0 if there is none."""
    return max(0.0, now) if before == 0.0 else (1 - _NEWEST) * before + _NEWEST * max(0.0, now)
