"""Times as users write them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.timestamps import parse_timestamp, rfc3339
from cqrs_cli.settings.moments import parse_deadline, parse_moment


@given(st.integers(0, 4_000_000_000_000))
def test_formatted_time_is_read_back(ms: int) -> None:
    assert parse_moment(rfc3339(ms)) == ms


def test_day_starts_in_utc() -> None:
    assert parse_moment("2026-11-22") == parse_timestamp("2026-11-22T00:00:00Z")


@pytest.mark.parametrize(("text", "ago"), [("10m", 600_000), ("1h30m", 5_400_000), ("2d ago", 172_800_000)])
def test_a_duration_counts_back(text: str, ago: int) -> None:
    start_ms = time.time_ns() // 1_000_000
    assert start_ms <= parse_moment(text) + ago <= time.time_ns() // 1_000_000


@pytest.mark.parametrize(
    "text", ["", "now", "10", "2026-13-01", "2026-11-22T01:02:03", "22.11.2026", "-5m", "2026-11-22 ago"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a time: .* 10m for ten minutes ago"):
        parse_moment(text)


@given(st.integers(4_000_000_000_000, 9_000_000_000_000))
def test_formatted_deadline_is_read_back(ms: int) -> None:
    assert parse_deadline(rfc3339(ms)) == ms


def test_a_deadline_counts_ahead() -> None:
    start_ms = time.time_ns() // 1_000_000
    for text in ("1h30m", "1h30m from now"):
        assert start_ms <= parse_deadline(text) - 5_400_000 <= time.time_ns() // 1_000_000
    assert parse_deadline("2999-01-01") == parse_timestamp("2999-01-01T00:00:00Z")


def test_a_past_deadline_is_refused() -> None:
    with pytest.raises(ValueError, match="'2026-01-01' is in the past: it is 20"):
        parse_deadline("2026-01-01")


@pytest.mark.parametrize("text", ["", "now", "10", "tomorrow"])
def test_other_deadlines_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a time: .* 10m for in ten minutes"):
        parse_deadline(text)
