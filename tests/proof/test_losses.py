"""An accepted loss is counted, and the other records are verified."""

import pytest

from cqrs_cli.proof.scope import Loss
from tests.proof.history import WINDOW, History, Wish, appended, begun_again, moved, wish
from tests.proof.violations import described, only, outcome_of
from tests.support.foreign_records import edited


def test_accepted_loss_is_counted(history: History) -> None:
    del history.outcomes[1:4], history.events[2]
    report = history.prove(loss=Loss(5, 0, 0))
    assert (report.accepted_losses, report.violations) == (4, ())
    del history.outcomes[1]
    assert only(history, loss=Loss(5, 0, 0)) == "commands 5 has no outcome"


def test_versions_follow_unless_lost(history: History) -> None:
    """Versions must follow before the loss, after an aggregate's first command after it, and without a loss."""
    history.outcomes[2] = edited(history.outcomes[2], {"version": 7})
    del history.outcomes[1], history.events[2]
    assert only(history, loss=Loss(5, 0, 0)) == "outcomes 2 says that 'a' is at version 7, which is at 2"


@pytest.mark.parametrize(("at", "lost"), [(1, True), (2, True), (2, False)])
def test_version_after_loss_may_jump_once(history: History, at: int, lost: bool) -> None:
    """The second command of `b` continues from a version to which the first command, at 1, has not led."""
    history.events[-1] = edited(history.events[-1], aggregateversion=9)
    history.outcomes[-1] = edited(history.outcomes[-1], {"version": 9})
    if lost:
        del history.outcomes[0], history.events[:2]
    wrong = ["events 8 goes on from version 8 of 'b', which is at 1: versions are missing"]
    assert described(history, loss=Loss(at, 0, 0)) == ([] if lost and at > 1 else wrong)


def test_events_begin_again_after_loss(history: History) -> None:
    later = History([wish(1), wish(1), wish(1, "b")])
    lost = History([wish(1), wish(0), wish(0)])
    later.commands, later.outcomes = later.commands, [lost.outcomes[0], *again(later).outcomes]
    later.events = again(later).events
    report = later.prove(loss=Loss(1, 0, 1))
    assert (report.accepted_losses, report.violations) == (2, ())


def again(history: History) -> History:
    """Return the commands after the first, decided as if the first did not exist."""
    rest = History([])
    rest.commands = history.commands[1:]
    rest.decide()
    return rest


def test_commands_begin_again_after_loss(history: History) -> None:
    old = History([wish(1), wish(2), wish(1)])
    new = History([Wish(1, wait=60_000), wish(1)])
    history.commands, history.committed = new.commands, new.committed
    for log, first, second in (
        (history.outcomes, old.outcomes, new.outcomes),
        (history.events, old.events, new.events),
    ):
        log[:] = first
        for record in second:
            appended(log, record)
    history.letters.clear()
    loss = Loss(0, old.events[-1].offset + 1, old.outcomes[-1].offset + 1)
    assert history.violations() != []
    assert history.violations(loss=loss) == []
    del history.outcomes[-1]
    assert "commands 1 has no outcome" in described(history, loss=loss)


def test_one_old_command_is_enough() -> None:
    loss = Loss(0, 9, 9)
    report = begun_again(History([wish(1)]), loss).prove(loss=loss)
    assert (report.accepted_losses, report.violations) == (2, ())


def test_duplicate_may_be_of_the_old_topic() -> None:
    """The outcomes of the old topic no longer exist for a comparison."""
    loss = Loss(0, 9, 9)
    history = begun_again(History([wish(1)]), loss, "x")
    original = {"offset": 7, "status": "accepted", "version": 1, "events": 1}
    history.outcomes[-1] = edited(history.outcomes[-1], {"original": original})
    assert history.violations(loss=loss) == []
    history.outcomes, history.events = history.outcomes[1:], history.events[1:]
    assert "outcomes 10 points to command 7, which has no outcome before it" in described(history)


def test_letters_begin_again_with_outcomes() -> None:
    loss, old = Loss(0, 9, 9), History([Wish(0, value=b"?")])
    new = History([Wish(0, value=b"?", wait=60_000)])
    new.outcomes = [*old.outcomes, moved(new.outcomes[0], 9)]
    new.letters = [*old.letters, moved(new.letters[0], 9)]
    report = new.prove(loss=loss)
    assert (report.accepted_losses, report.violations) == (2, ())


def test_event_said_twice_is_found(history: History) -> None:
    at = appended(history.events, history.events[2])
    found = f"events {at} is of command 1, as is the record at offset 2"
    assert only(history, loss=Loss(0, 0, 99)) == found


def test_letter_said_twice_is_found(history: History) -> None:
    at = appended(history.letters, history.letters[0])
    found = f"dead-letters {at} is of command 9, as is the record at offset 0"
    assert only(history, loss=Loss(0, 99, 99)) == found


def test_repetition_before_the_loss_is_found() -> None:
    loss, old = Loss(0, 9, 9), History([wish(1), wish(1)])
    appended(old.outcomes, old.outcomes[0])
    assert "outcomes 2 is of command 0, as is the record at offset 0" in described(
        begun_again(old, loss), loss=loss
    )


def test_repetition_below_the_loss_is_found(history: History) -> None:
    history.commands[5] = moved(history.commands[4], history.commands[5].offset)
    at = appended(history.outcomes, history.outcomes[1])
    assert f"outcomes {at} is of command 1, as is the record at offset 1" in described(
        history, loss=Loss(5, 99, at)
    )


@pytest.mark.parametrize("resumed", [0, 2, 4])
def test_commands_decided_twice_after_loss(resumed: int) -> None:
    history = History([Wish(1, wait=2 * WINDOW) for _ in range(4)])
    repeated = [record for record in history.outcomes if outcome_of(record) >= resumed]
    places = [appended(history.outcomes, record) for record in repeated]
    found = history.violations(loss=Loss(resumed, 99, places[0]))
    first = f"is of command {resumed}, as is the record at offset "
    assert [at for kind, at, _ in found if kind == "outcomes"] == places and found[0].problem.startswith(
        first
    )


def test_outcomes_of_old_topic_partly_deleted() -> None:
    history = History([Wish(1, wait=60_000), wish(1)])
    old = History([wish(1), wish(2), wish(1)])
    later = [moved(record, number + 9) for number, record in enumerate(history.outcomes)]
    events = [moved(record, number + 9) for number, record in enumerate(history.events)]
    history.outcomes, history.events = old.outcomes[1:] + later, old.events + events
    report = history.prove(loss=Loss(0, 9, 9), starts={"outcomes": 1})
    assert (report.accepted_losses > 0, report.violations) == (True, ())
