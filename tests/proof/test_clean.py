"""A correct history has no violation, and retention and unfinished work are not violations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.proof import findings
from tests.proof.history import History, appended, drawn, seeds, wish
from tests.proof.violations import event_of, letter_of, only, outcome_of
from tests.support.foreign_records import edited


def test_clean_history_is_counted(history: History) -> None:
    report = history.prove()
    assert report[:5] == (9, 9, 7, 1, 2)
    assert (report.given_up, report.violations, report.violation_count) == (0, (), 0)


def test_aggregate_is_counted_once() -> None:
    assert History([wish(1), wish(1), wish(1)]).prove().aggregates == 1


@pytest.mark.covers("verifiable")
@given(seeds)
def test_every_clean_history_is_silent(seed: int) -> None:
    assert History(drawn(seed)).violations() == []


def test_empty_topics_are_clean() -> None:
    assert History([]).violations(seen=(None, None)) == []


def test_deleted_commands_leave_provable_events(history: History) -> None:
    del history.commands[:6]
    report = history.prove()
    assert (report.commands, report.deleted["commands"], report.violation_count) == (3, 6, 0)
    del history.events[2]
    assert only(history) == "outcomes 1 is of command 1, whose events are missing: 1"


def test_deleted_outcomes_and_letters_are_counted(history: History) -> None:
    del history.outcomes[:2], history.letters[:]
    report = history.prove(starts={"outcomes": 2, "dead-letters": 1})
    assert (report.deleted["outcomes"], report.deleted["dead-letters"]) == (2, 1)
    assert report.violations == ()


def test_deleted_events_are_a_violation(history: History) -> None:
    del history.events[:2]
    first, *_ = history.violations(starts={"events": 2})
    assert first == ("events", 2, "is where the log starts: events were deleted")


def test_versions_follow_the_first_known(history: History) -> None:
    """The events before it were deleted."""
    del history.outcomes[:2], history.events[:3]
    starts = {"events": 3, "outcomes": 2}
    assert only(history, starts=starts) == "events 3 is where the log starts: events were deleted"
    history.outcomes[4] = edited(history.outcomes[4], {"version": 7})
    wrong = ("outcomes", 8, "says that 'a' is at version 7, which is at 5")
    assert wrong in history.violations(starts=starts)


@pytest.mark.covers("verifiable")
@given(seeds, st.integers(0, 40), st.tuples(*[st.integers(0, 40)] * 3))
def test_parts_of_a_decision_are_clean(seed: int, decided: int, seen: tuple[int, int, int]) -> None:
    history = History(drawn(seed))
    ends = [record.offset for record in history.commands]
    ends.append(ends[-1] + 1)
    before = ends[decided]
    logs = (history.outcomes, history.events, history.letters)
    for log, more, command_of in zip(logs, seen, (outcome_of, event_of, letter_of), strict=True):
        log[:] = [record for record in log if command_of(record) < before] + [
            record for record in log if command_of(record) >= before
        ][:more]
    assert history.violations(seen=(before, history.committed)) == []


def test_last_outcome_replaces_committed_offset(history: History) -> None:
    del history.outcomes[-1], history.events[-1]
    assert history.violations(seen=(None, None)) == []
    del history.outcomes[2]
    assert only(history, seen=(None, None)) == "commands 2 has no outcome"


def test_many_violations_are_partly_named(history: History) -> None:
    for _ in range(300):
        appended(history.outcomes, history.outcomes[0])
    report = history.prove()
    assert (report.violation_count, len(report.violations)) == (300, findings.MAX_LISTED)


def test_only_so_many_are_kept() -> None:
    found = findings.Findings()
    for offset in range(findings.MAX_LISTED + 9):
        found.add_violation("events", offset, "is wrong")
    assert (len(found.listed), found.count) == (findings.MAX_LISTED, findings.MAX_LISTED + 9)


def test_command_at_the_offset_may_be_undecided(history: History) -> None:
    del history.outcomes[6]
    assert history.violations(seen=(8, history.committed)) == []
    assert only(history, seen=(9, history.committed)) == "commands 8 has no outcome"


def test_last_outcome_needs_its_events() -> None:
    """The last outcome shows the decided commands if no offset is committed."""
    history = History([wish(1), wish(1)])
    del history.events[-1]
    assert len(history.violations(seen=(None, None))) == 1


def test_all_outcomes_may_be_deleted() -> None:
    history = History([wish(0), wish(0)])
    history.outcomes.clear()
    report = history.prove(starts={"outcomes": 2})
    assert (report.violations, report.deleted["outcomes"]) == ((), 2)
