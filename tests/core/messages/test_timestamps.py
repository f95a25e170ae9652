from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.timestamps import parse_timestamp, parse_utc, rfc3339


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_timestamp_is_read_back(milliseconds: int) -> None:
    assert parse_timestamp(rfc3339(milliseconds)) == milliseconds


@given(st.integers(0, 253_402_300_799_999), st.integers(0, 253_402_300_799_999))
def test_texts_sort_as_timestamps_do(first: int, second: int) -> None:
    assert (rfc3339(first) < rfc3339(second)) == (first < second)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t01:00:00.5+01:00", 500),
        ("1970-01-01 00:00:00.0019z", 1),
    ],
)
def test_rfc_3339_is_rounded_down(text: str, milliseconds: int) -> None:
    assert parse_timestamp(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-11-21", "2026-11-21T01:02:03", "2026-13-21T01:02:03Z", "0001-01-01T00:00:00+14:00"],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a time"):
        parse_timestamp(text)


@pytest.mark.parametrize("milliseconds", [2**62, -(2**62)])
def test_timestamp_beyond_calendars_becomes_the_epoch(milliseconds: int) -> None:
    assert rfc3339(milliseconds) == "1970-01-01T00:00:00.000Z"


def test_any_offset_is_read_as_utc() -> None:
    moment = parse_utc("2026-11-21T01:02:03+05:00")
    assert moment == datetime(2026, 11, 20, 20, 2, 3, tzinfo=UTC) and moment.tzinfo is UTC
    with pytest.raises(ValueError, match="with an offset"):
        parse_utc("2026-11-21T01:02:03")
