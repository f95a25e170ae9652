"""A correct history has no violation, and retention and unfinished work are not violations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.proof import findings
from tests.proof.history import History, append_record, plan_command, random_commands, seeds
from tests.proof.violations import (
    command_of_dead_letter,
    command_of_event,
    command_of_outcome,
    only_violation,
)
from tests.support.foreign_records import changed_record


def test_clean_history_is_counted(history: History) -> None:
    report = history.verify()
    assert report[:5] == (9, 9, 7, 1, 2)
    assert (report.given_up, report.violations, report.violation_count) == (0, (), 0)


def test_aggregate_is_counted_once() -> None:
    assert History([plan_command(1), plan_command(1), plan_command(1)]).verify().aggregates == 1


@pytest.mark.covers("verifiable")
@given(seeds)
def test_every_clean_history_is_silent(seed: int) -> None:
    assert History(random_commands(seed)).violations() == []


def test_empty_topics_are_clean() -> None:
    assert History([]).violations(committed=(None, None)) == []


def test_deleted_commands_leave_provable_events(history: History) -> None:
    del history.commands[:6]
    report = history.verify()
    assert (report.commands, report.deleted["commands"], report.violation_count) == (3, 6, 0)
    del history.events[2]
    assert only_violation(history) == "outcomes 1 is of command 1, of which 0 of 1 events were found"


def test_deleted_outcomes_and_letters_are_counted(history: History) -> None:
    del history.outcomes[:2], history.letters[:]
    report = history.verify(starts={"outcomes": 2, "dead-letters": 1})
    assert (report.deleted["outcomes"], report.deleted["dead-letters"]) == (2, 1)
    assert report.violations == ()


def test_deleted_events_are_a_violation(history: History) -> None:
    del history.events[:2]
    first, *_ = history.violations(starts={"events": 2})
    assert first == ("events", 2, "is where the log starts: events were deleted")


def test_versions_follow_the_first_known(history: History) -> None:
    """The events before the first known version were deleted."""
    del history.outcomes[:2], history.events[:3]
    starts = {"events": 3, "outcomes": 2}
    assert only_violation(history, starts=starts) == "events 3 is where the log starts: events were deleted"
    history.outcomes[4] = changed_record(history.outcomes[4], {"version": 7})
    violation = ("outcomes", 8, "has version 7, but 'a' is at version 5")
    assert violation in history.violations(starts=starts)


@pytest.mark.covers("verifiable")
@given(seeds, st.integers(0, 40), st.tuples(*[st.integers(0, 40)] * 3))
def test_parts_of_a_decision_are_clean(seed: int, decided_count: int, counts: tuple[int, int, int]) -> None:
    history = History(random_commands(seed))
    end_offsets = [record.offset for record in history.commands]
    end_offsets.append(end_offsets[-1] + 1)
    end_offset = end_offsets[decided_count]
    logs = (history.outcomes, history.events, history.letters)
    for log, count, command_of in zip(
        logs, counts, (command_of_outcome, command_of_event, command_of_dead_letter), strict=True
    ):
        log[:] = [record for record in log if command_of(record) < end_offset] + [
            record for record in log if command_of(record) >= end_offset
        ][:count]
    assert history.violations(committed=(end_offset, history.committed)) == []


def test_last_outcome_replaces_committed_offset(history: History) -> None:
    del history.outcomes[-1], history.events[-1]
    assert history.violations(committed=(None, None)) == []
    del history.outcomes[2]
    assert only_violation(history, committed=(None, None)) == "commands 2 has no outcome"


def test_many_violations_are_partly_named(history: History) -> None:
    for _ in range(300):
        append_record(history.outcomes, history.outcomes[0])
    report = history.verify()
    assert (report.violation_count, len(report.violations)) == (300, findings.MAX_LISTED)


def test_list_of_findings_is_limited() -> None:
    collected = findings.Findings()
    for offset in range(findings.MAX_LISTED + 9):
        collected.add_violation("events", offset, "is wrong")
    assert (len(collected.listed), collected.count) == (findings.MAX_LISTED, findings.MAX_LISTED + 9)


def test_command_at_the_offset_may_be_undecided(history: History) -> None:
    del history.outcomes[6]
    assert history.violations(committed=(8, history.committed)) == []
    assert only_violation(history, committed=(9, history.committed)) == "commands 8 has no outcome"


def test_last_outcome_needs_its_events() -> None:
    """The last outcome shows the decided commands if no offset is committed."""
    history = History([plan_command(1), plan_command(1)])
    del history.events[-1]
    assert len(history.violations(committed=(None, None))) == 1


def test_all_outcomes_may_be_deleted() -> None:
    history = History([plan_command(0), plan_command(0)])
    history.outcomes.clear()
    report = history.verify(starts={"outcomes": 2})
    assert (report.violations, report.deleted["outcomes"]) == ((), 2)
