"""Moments as people write them: `2026-11-21T01:02:03Z`, `2026-11-21`, or `10m` for ten minutes ago."""

import re
import time

from cqrs_cli.core.messages.timestamps import parse_timestamp
from cqrs_cli.settings.durations import milliseconds, parse_duration

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def parse_moment(text: str) -> int:
    """Milliseconds since the epoch of a time (RFC 3339 with its offset), of the start of a day in UTC, or of the moment
    that lies a duration back. Raises `ValueError` for any other text.
    """
    try:
        return time.time_ns() // 1_000_000 - milliseconds(parse_duration(text))
    except ValueError:
        pass
    try:
        return parse_timestamp(f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text)
    except ValueError:
        raise ValueError(
            f"not a time: {text[:40]!r} (like 2026-11-21T01:02:03Z, 2026-11-21, or 10m for ten minutes ago)"
        ) from None
