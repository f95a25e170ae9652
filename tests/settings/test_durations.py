from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.settings.durations import milliseconds, parse_duration, show_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("15m", 900),
        ("24h", 86_400),
        ("7d", 604_800),
        ("1h30m", 5400),
        ("500ms", 0.5),
        ("2w", 1_209_600),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "7", "d", "-1h", "1.5h", "1y", "1 h", "1h x", "٣d", "9" * 15 + "d"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.integers(min_value=1, max_value=10**14))
def test_shown_duration_is_read_back(ms: int) -> None:
    shown_text = show_duration(timedelta(milliseconds=ms))
    assert milliseconds(parse_duration(shown_text)) == ms


def test_none_is_shown_as_unlimited() -> None:
    assert show_duration(None) == "unlimited"
