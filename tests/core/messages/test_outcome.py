"""The messages of outcomes, and records that are not outcomes."""

import pytest

from cqrs_cli.core.messages.outcome import MAX_MESSAGE, read_outcome, truncate


@pytest.mark.parametrize("length", [0, 1, MAX_MESSAGE - 1, MAX_MESSAGE])
def test_message_that_fits_is_kept(length: int) -> None:
    assert truncate("ä" * length) == "ä" * length


def test_long_message_ends_with_an_ellipsis() -> None:
    assert truncate("ab" * MAX_MESSAGE) == ("ab" * MAX_MESSAGE)[: MAX_MESSAGE - 1] + "…"


def test_lone_surrogates_are_question_marks() -> None:
    assert truncate("a\ud800b") == "a?b"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "a null value is not an outcome"),
        (b'{"x":' + b"[" * 100_000, "nested too deeply|Input data was truncated"),
    ],
)
def test_other_records_are_refused(value: bytes | None, message: str) -> None:
    with pytest.raises(ValueError, match=f"^({message})$"):
        read_outcome(value)
