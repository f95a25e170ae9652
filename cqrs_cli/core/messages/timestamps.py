"""Timestamps as text: RFC 3339 in, milliseconds in UTC out."""

import re
from datetime import UTC, datetime, timedelta

_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def parse_timestamp(text: str) -> int:
    """Milliseconds since the epoch, rounded down; raises `ValueError` for text that is not RFC 3339 with its offset."""
    if _RFC3339.fullmatch(text) is None:
        raise ValueError(f"not a time: {text[:40]!r} (RFC 3339 with its offset, like 2026-11-21T01:02:03Z)")
    try:
        return milliseconds_of(datetime.fromisoformat(text.upper()).astimezone(UTC))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"not a time: {text[:40]!r} ({error})") from None


def milliseconds_of(moment: datetime) -> int:
    """Milliseconds since the epoch of an aware datetime, rounded down."""
    return (moment - _EPOCH) // _MILLISECOND


def rfc3339(milliseconds: int) -> str:
    """`2026-11-21T01:02:03.456Z`: texts of one length, so that they sort as the timestamps do."""
    return utc(milliseconds).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def utc(milliseconds: int) -> datetime:
    """The timestamp as an aware datetime in UTC. One beyond the calendar becomes the epoch."""
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return _EPOCH


def parse_utc(text: str) -> datetime:
    """A timestamp with its offset as an aware datetime in UTC; raises `ValueError` for any other text."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"not a time: {text[:40]!r} (RFC 3339 with its offset, like 2026-11-21T01:02:03Z)")
    return moment.astimezone(UTC)
