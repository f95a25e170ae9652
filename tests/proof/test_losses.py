"""An accepted loss is counted, and the other records are verified."""

import pytest

from cqrs_cli.proof.scope import Loss
from tests.proof.history import (
    WINDOW,
    History,
    PlannedCommand,
    append_record,
    plan_command,
    restarted_history,
    with_offset,
)
from tests.proof.violations import command_of_outcome, only_violation, violation_texts
from tests.support.foreign_records import changed_record


def test_accepted_loss_is_counted(history: History) -> None:
    del history.outcomes[1:4], history.events[2]
    report = history.verify(loss=Loss(5, 0, 0))
    assert (report.accepted_losses, report.violations) == (4, ())
    del history.outcomes[1]
    assert only_violation(history, loss=Loss(5, 0, 0)) == "commands 5 has no outcome"


def test_versions_follow_unless_lost(history: History) -> None:
    """Only the first command of an aggregate after the loss may skip versions."""
    history.outcomes[2] = changed_record(history.outcomes[2], {"version": 7})
    del history.outcomes[1], history.events[2]
    assert only_violation(history, loss=Loss(5, 0, 0)) == "outcomes 2 has version 7, but 'a' is at version 2"


@pytest.mark.parametrize(("restart", "is_lost"), [(1, True), (2, True), (2, False)])
def test_version_after_loss_may_jump_once(history: History, restart: int, is_lost: bool) -> None:
    """The second command of `b` continues from a version to which the first command, at 1, has not led."""
    history.events[-1] = changed_record(history.events[-1], aggregateversion=9)
    history.outcomes[-1] = changed_record(history.outcomes[-1], {"version": 9})
    if is_lost:
        del history.outcomes[0], history.events[:2]
    violations = ["events 8 goes on from version 8 of 'b', which is at 1: versions are missing"]
    assert violation_texts(history, loss=Loss(restart, 0, 0)) == (
        [] if is_lost and restart > 1 else violations
    )


def test_events_restart_after_a_loss(history: History) -> None:
    history_after_loss = History([plan_command(1), plan_command(1), plan_command(1, "b")])
    earlier_history = History([plan_command(1), plan_command(0), plan_command(0)])
    history_after_loss.commands, history_after_loss.outcomes = (
        history_after_loss.commands,
        [earlier_history.outcomes[0], *decide_without_first(history_after_loss).outcomes],
    )
    history_after_loss.events = decide_without_first(history_after_loss).events
    report = history_after_loss.verify(loss=Loss(1, 0, 1))
    assert (report.accepted_losses, report.violations) == (2, ())


def decide_without_first(history: History) -> History:
    """Return the commands after the first, decided as if the first did not exist."""
    later_history = History([])
    later_history.commands = history.commands[1:]
    later_history.decide()
    return later_history


def test_commands_restart_after_a_loss(history: History) -> None:
    old = History([plan_command(1), plan_command(2), plan_command(1)])
    new = History([PlannedCommand(1, wait=60_000), plan_command(1)])
    history.commands, history.committed = new.commands, new.committed
    for log, first, second in (
        (history.outcomes, old.outcomes, new.outcomes),
        (history.events, old.events, new.events),
    ):
        log[:] = first
        for record in second:
            append_record(log, record)
    history.letters.clear()
    loss = Loss(0, old.events[-1].offset + 1, old.outcomes[-1].offset + 1)
    assert history.violations() != []
    assert history.violations(loss=loss) == []
    del history.outcomes[-1]
    assert "commands 1 has no outcome" in violation_texts(history, loss=loss)


def test_one_old_command_is_enough() -> None:
    loss = Loss(0, 9, 9)
    report = restarted_history(History([plan_command(1)]), loss).verify(loss=loss)
    assert (report.accepted_losses, report.violations) == (2, ())


def test_duplicate_may_be_of_the_old_topic() -> None:
    """The outcomes of the old topic no longer exist for a comparison."""
    loss = Loss(0, 9, 9)
    history = restarted_history(History([plan_command(1)]), loss, "x")
    original = {"offset": 7, "status": "accepted", "version": 1, "events": 1}
    history.outcomes[-1] = changed_record(history.outcomes[-1], {"original": original})
    assert history.violations(loss=loss) == []
    history.outcomes, history.events = history.outcomes[1:], history.events[1:]
    assert "outcomes 10 points to command 7, which has no outcome before it" in violation_texts(history)


def test_letters_restart_with_outcomes() -> None:
    loss, old = Loss(0, 9, 9), History([PlannedCommand(0, value=b"?")])
    new = History([PlannedCommand(0, value=b"?", wait=60_000)])
    new.outcomes = [*old.outcomes, with_offset(new.outcomes[0], 9)]
    new.letters = [*old.letters, with_offset(new.letters[0], 9)]
    report = new.verify(loss=loss)
    assert (report.accepted_losses, report.violations) == (2, ())


def test_repeated_event_after_loss_is_found(history: History) -> None:
    offset = append_record(history.events, history.events[2])
    violation = f"events {offset} is of command 1, as is the record at offset 2"
    assert only_violation(history, loss=Loss(0, 0, 99)) == violation


def test_repeated_letter_after_loss_is_found(history: History) -> None:
    offset = append_record(history.letters, history.letters[0])
    violation = f"dead-letters {offset} is of command 9, as is the record at offset 0"
    assert only_violation(history, loss=Loss(0, 99, 99)) == violation


def test_repetition_before_the_loss_is_found() -> None:
    loss, old = Loss(0, 9, 9), History([plan_command(1), plan_command(1)])
    append_record(old.outcomes, old.outcomes[0])
    assert "outcomes 2 is of command 0, as is the record at offset 0" in violation_texts(
        restarted_history(old, loss), loss=loss
    )


def test_repetition_below_the_loss_is_found(history: History) -> None:
    history.commands[5] = with_offset(history.commands[4], history.commands[5].offset)
    offset = append_record(history.outcomes, history.outcomes[1])
    assert f"outcomes {offset} is of command 1, as is the record at offset 1" in violation_texts(
        history, loss=Loss(5, 99, offset)
    )


@pytest.mark.parametrize("restart", [0, 2, 4])
def test_commands_decided_twice_after_loss(restart: int) -> None:
    history = History([PlannedCommand(1, wait=2 * WINDOW) for _ in range(4)])
    repeated = [record for record in history.outcomes if command_of_outcome(record) >= restart]
    offsets = [append_record(history.outcomes, record) for record in repeated]
    violations = history.violations(loss=Loss(restart, 99, offsets[0]))
    first = f"is of command {restart}, as is the record at offset "
    assert [offset for kind, offset, _ in violations if kind == "outcomes"] == offsets and violations[
        0
    ].problem.startswith(first)


def test_outcomes_of_old_topic_partly_deleted() -> None:
    history = History([PlannedCommand(1, wait=60_000), plan_command(1)])
    old = History([plan_command(1), plan_command(2), plan_command(1)])
    later_outcomes = [with_offset(record, number + 9) for number, record in enumerate(history.outcomes)]
    events = [with_offset(record, number + 9) for number, record in enumerate(history.events)]
    history.outcomes, history.events = old.outcomes[1:] + later_outcomes, old.events + events
    report = history.verify(loss=Loss(0, 9, 9), starts={"outcomes": 1})
    assert (report.accepted_losses > 0, report.violations) == (True, ())
