"""Faults in the dead letters are named with their place."""

from cqrs_cli.core.messages.record import Record
from tests.proof.history import History, appended, wish, with_value
from tests.proof.reading import only, remade


def test_dead_letter_with_another_reason(history: History) -> None:
    headers = [("cqrs.reason", b"KEY_MISSING"), *(history.letters[0].headers or [])[-4:]]
    before = (history.letters[0].headers or [])[:-5]
    history.letters[0] = remade(history.letters[0], headers=[*before, *headers])
    assert only(history) == ("dead-letters 0 has another reason, key or timestamp than its command's outcome")


def test_missing_dead_letter_is_found(history: History) -> None:
    history.letters.clear()
    assert only(history) == "outcomes 9 is of command 9, which has no dead letter"


def test_dead_letter_with_other_bytes(history: History) -> None:
    history.letters[0] = with_value(history.letters[0], b"other")
    assert only(history) == "dead-letters 0 does not have the bytes and headers of command 9"


def test_dead_letter_of_accepted_command(history: History) -> None:
    letter = history.letters[0]
    headers = [*(letter.headers or [])[:-1], ("cqrs.offset", b"1")]
    at = appended(history.letters, Record(0, letter.timestamp, letter.key, letter.value, headers))
    assert ("dead-letters", at, "is of command 1, whose outcome is accepted") in history.violations()


def test_given_up_command_keeps_no_bytes() -> None:
    history = History([wish(1), wish(1)], refused=frozenset([1]))
    assert history.letters[0].value is None
    assert history.violations() == []
