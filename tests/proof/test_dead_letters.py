"""Faults in the dead letters are reported with partition and offset."""

import pytest

from cqrs_cli.core.messages.drop_record import DROP_HEADERS
from cqrs_cli.core.messages.record import Headers, Record
from tests.proof.history import NOW, History, PlannedCommand, append_record, plan_command, with_value
from tests.proof.violations import only_violation, violation_texts, with_members


def test_dead_letter_with_another_reason(history: History) -> None:
    headers = [("cqrs.reason", b"KEY_MISSING"), *(history.letters[0].headers or [])[-4:]]
    command_headers = (history.letters[0].headers or [])[:-5]
    history.letters[0] = with_members(history.letters[0], headers=[*command_headers, *headers])
    assert only_violation(history) == (
        "dead-letters 0 has another reason, key or timestamp than its command's outcome"
    )


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        (
            [],
            "its headers do not end with cqrs.reason, cqrs.message, cqrs.topic, cqrs.partition, cqrs.offset",
        ),
        ([("cqrs.topic", b"other")], "it refers to other partition 1"),
        ([("cqrs.partition", b"2")], "it refers to tally.commands partition 2"),
        ([("cqrs.offset", None)], "it refers to offset ''"),
        ([("cqrs.offset", b"-1")], "it refers to offset '-1'"),
        ([("cqrs.offset", "٣".encode())], "it refers to offset '٣'"),
        ([("cqrs.offset", str(2**63).encode())], f"it refers to offset '{2**63}'"),
    ],
)
def test_letter_of_no_command_is_named(history: History, headers: Headers, problem: str) -> None:
    headers_by_name = dict(history.letters[0].headers or []) | dict(headers)
    history.letters[0] = with_members(
        history.letters[0], headers=list(headers_by_name.items()) if headers else None
    )
    assert f"dead-letters 0 is not a dead letter: {problem}" in violation_texts(history)


def test_letter_of_an_unknown_command_is_named(history: History) -> None:
    headers = {**dict(history.letters[0].headers or []), "cqrs.offset": b"99"}
    history.letters.append(with_members(history.letters[0], offset=1, headers=list(headers.items())))
    assert only_violation(history) == "dead-letters 1 is of command 99, which is not decided yet"


def test_missing_dead_letter_is_found(history: History) -> None:
    history.letters.clear()
    assert only_violation(history) == "outcomes 9 is of command 9, which has no dead letter"


def test_first_dead_letter_is_missed() -> None:
    history = History([PlannedCommand(0, value=b"?")])
    history.letters.clear()
    assert only_violation(history) == "outcomes 0 is of command 0, which has no dead letter"


def test_letters_after_unreadable_letter_count() -> None:
    history = History([PlannedCommand(0, value=b"?") for _ in range(2)])
    history.letters[0] = with_members(history.letters[0], headers=None)
    unreadable, missing = violation_texts(history)
    assert unreadable.startswith("dead-letters 0 is not a dead letter")
    assert missing == "outcomes 0 is of command 0, which has no dead letter"


def test_deleted_dead_letters_add_up() -> None:
    history = History([PlannedCommand(0, value=b"?") for _ in range(3)])
    del history.letters[:2]
    report = history.verify(starts={"dead-letters": 2})
    assert (report.deleted["dead-letters"], report.violations) == (2, ())


def test_dead_letter_with_other_bytes(history: History) -> None:
    history.letters[0] = with_value(history.letters[0], b"other")
    assert only_violation(history) == "dead-letters 0 does not have the bytes and headers of command 9"


def test_dead_letter_of_accepted_command(history: History) -> None:
    letter = history.letters[0]
    headers = [*(letter.headers or [])[:-1], ("cqrs.offset", b"1")]
    offset = append_record(history.letters, Record(0, letter.timestamp, letter.key, letter.value, headers))
    assert ("dead-letters", offset, "is of command 1, whose outcome is accepted") in history.violations()


@pytest.fixture
def given_up() -> History:
    """Three commands. The second and the third are given up, and the third has a key that is too long for a subject."""
    long_key_command = PlannedCommand(1, key=b"k" * 1025)
    return History([plan_command(1), plan_command(1), long_key_command], refused=frozenset([1, 2]))


@pytest.mark.covers("verifiable")
def test_given_up_commands_are_counted(given_up: History) -> None:
    assert [letter.value for letter in given_up.letters] == [None, None]
    assert [outcome.key for outcome in given_up.outcomes] == [b"a", b"a", None]
    report = given_up.verify()
    assert (report.given_up, report.dead_letters, report.violations) == (2, 2, ())


def test_given_up_command_with_bytes(given_up: History) -> None:
    given_up.letters[0] = with_value(given_up.letters[0], given_up.commands[1].value)
    assert (
        only_violation(given_up) == "dead-letters 0 keeps bytes or headers of command 1, which was given up"
    )


def test_given_up_command_with_headers(given_up: History) -> None:
    headers = [("a", b"b"), *(given_up.letters[0].headers or [])]
    given_up.letters[0] = with_members(given_up.letters[0], headers=headers)
    del given_up.commands[:2]
    assert (
        only_violation(given_up) == "dead-letters 0 keeps bytes or headers of command 1, which was given up"
    )


def test_given_up_command_with_long_key(given_up: History) -> None:
    for log, index in ((given_up.outcomes, 2), (given_up.letters, 1)):
        log[index] = with_members(log[index], key=b"k" * 1025)
    assert "its command b'kkk" in only_violation(given_up)


def test_record_of_a_drop_is_no_letter(history: History) -> None:
    count = history.verify().dead_letters
    append_record(history.letters, Record(0, NOW, None, b"{}", DROP_HEADERS))
    report = history.verify()
    assert (report.dead_letters, report.violations) == (count, ())
