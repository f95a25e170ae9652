"""Outcomes have the type, subject and ids of readable commands, and none of these of unreadable commands."""

from typing import Any

import pytest

from tests.proof.history import History, PlannedCommand, plan_command
from tests.proof.violations import only_violation, violation_texts, without_members
from tests.support.foreign_records import changed_record


@pytest.fixture
def unread_commands() -> History:
    """Three unreadable commands: not JSON, without a key, failed with TOO_LARGE without being read.

    Two commands whose keys differ from their subjects.
    """
    planned = [
        PlannedCommand(0, value=b"\xff"),
        PlannedCommand(0, key=b""),
        plan_command(1),
        PlannedCommand(0, key=b"b"),
        PlannedCommand(0, key=b"\xff"),
    ]
    return History(planned, refused=frozenset([2]))


def test_unread_commands_are_clean(unread_commands: History) -> None:
    assert unread_commands.violations() == []


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("member", ["subject", "causationid", "correlationid"])
def test_name_of_unread_command_is_found(unread_commands: History, index: int, member: str) -> None:
    unread_commands.outcomes[index] = changed_record(unread_commands.outcomes[index], None, **{member: "a"})
    reason = ("INVALID_ENVELOPE", "KEY_MISSING", "TOO_LARGE")[index]
    assert f" is {reason}, but names {member} of a command that was not read" in only_violation(
        unread_commands
    )


def test_type_of_unread_command_is_found(unread_commands: History) -> None:
    unread_commands.outcomes[0] = changed_record(unread_commands.outcomes[0], type="tally.Add.failed")
    assert (
        only_violation(unread_commands)
        == "outcomes 0 has the type 'tally.Add.failed' of a command that was not read"
    )


@pytest.mark.parametrize(
    ("index", "data", "problem"),
    [
        (0, {"expected": "1"}, "is INVALID_ENVELOPE, but says that version 1 was expected"),
        (2, {"expected": "1"}, "is TOO_LARGE, but says that version 1 was expected"),
        (3, {"expected": "1"}, "is KEY_MISMATCH, but says that version 1 was expected"),
        (1, {"fingerprint": 1}, "is KEY_MISSING, but has the fingerprint of a command that was read"),
        (3, {"fingerprint": None}, "has no fingerprint"),
    ],
)
def test_member_of_unread_command_is_found(
    unread_commands: History, index: int, data: dict[str, Any], problem: str
) -> None:
    removed = [name for name, value in data.items() if value is None]
    forged = changed_record(
        unread_commands.outcomes[index], {name: value for name, value in data.items() if value is not None}
    )
    unread_commands.outcomes[index] = without_members(forged, *removed)
    assert f"outcomes {unread_commands.outcomes[index].offset} {problem}" in violation_texts(unread_commands)


def test_missing_name_is_found_without_command(history: History) -> None:
    history.outcomes[0] = changed_record(history.outcomes[0], causationid=None, correlationid=None)
    del history.commands[0], history.events[:2]
    text = "outcomes 0 is accepted, but does not name the causationid and correlationid of its command"
    assert text in violation_texts(history)


def test_all_names_are_found_missing(history: History) -> None:
    names = dict.fromkeys(("subject", "causationid", "correlationid"))
    history.outcomes[3] = changed_record(history.outcomes[3], **names)
    missing = "but does not name the subject and causationid and correlationid of its command"
    assert f"outcomes 4 is BUSINESS_RULE, {missing}" in violation_texts(history)


@pytest.mark.parametrize(("index", "subject"), [(3, None), (4, "a")])
def test_names_follow_the_key(unread_commands: History, index: int, subject: str | None) -> None:
    """The keys are not the subjects of their commands. A key that is text may be another command's subject.

    If the key is text, the outcome has the subject, causationid and correlationid of the command, otherwise none.
    """
    names = dict.fromkeys(("causationid", "correlationid"), None if subject is None else f"c{index}")
    unread_commands.outcomes[index] = changed_record(
        unread_commands.outcomes[index], None, subject=subject, **names
    )
    assert "has subject, causationid and correlationid" in only_violation(unread_commands)
