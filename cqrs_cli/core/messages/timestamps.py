"""Conversion of timestamps between RFC 3339 text, datetimes, and milliseconds since the epoch."""

import re
from datetime import UTC, datetime, timedelta

_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def parse_timestamp(text: str) -> int:
    """Return ms since the epoch, rounded down; raises `ValueError` for text that is not RFC 3339 with an offset."""
    if _RFC3339.fullmatch(text) is None:
        raise ValueError(f"not a time: {text[:40]!r} (RFC 3339 with an offset, such as 2026-11-21T01:02:03Z)")
    try:
        return milliseconds_of(datetime.fromisoformat(text.upper()).astimezone(UTC))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"not a time: {text[:40]!r} ({error})") from None


def milliseconds_of(moment: datetime) -> int:
    """Return the milliseconds since the epoch of an aware datetime, rounded down."""
    return (moment - _EPOCH) // _MILLISECOND


def rfc3339(milliseconds: int) -> str:
    """Return `2026-11-21T01:02:03.456Z`. All texts have the same length, so they sort in the order of time."""
    return utc(milliseconds).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def utc(milliseconds: int) -> datetime:
    """Return the timestamp as an aware datetime in UTC; the epoch for a timestamp beyond the calendar."""
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return _EPOCH


def parse_utc(text: str) -> datetime:
    """Return a timestamp with an offset as an aware datetime in UTC; raises `ValueError` for any other text."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"not a time: {text[:40]!r} (RFC 3339 with an offset, such as 2026-11-21T01:02:03Z)")
    return moment.astimezone(UTC)
