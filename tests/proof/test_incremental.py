"""A history that is verified in pieces has the same findings as in one go."""

import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.findings import LogName
from cqrs_cli.state.entry_index import EntryIndex
from tests.proof.faults import FAULTS
from tests.proof.history import WINDOW, History, PlannedCommand, random_commands, seeds, swap_records
from tests.proof.incremental import IN_MEMORY, LOGS, IncrementalVerifier, verify_ranges, whole_range
from tests.proof.violations import command_of_outcome
from tests.support.foreign_records import changed_record

cuts = st.lists(st.integers(0, 40), min_size=1, max_size=3)
ahead = st.tuples(*[st.integers(0, 6)] * 4)


@pytest.mark.covers("verifiable")
@settings(max_examples=50)
@given(seed=seeds, cuts=cuts, ahead=ahead)
def test_clean_history_verifies_in_pieces(seed: int, cuts: list[int], ahead: tuple[int, ...]) -> None:
    """A correct history has no finding at any cut, although an owner is active, and no record is read twice."""
    history = History(random_commands(seed))
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        verifier = IncrementalVerifier(history, Path(folder))
        reports = [verifier.verify(verify_range) for verify_range in verify_ranges(history, cuts, ahead)]
    assert [report.violations for report in reports] == [()] * len(reports)
    assert reports[-1] == history.verify()
    assert verifier.restart_reasons == []


@pytest.mark.covers("verifiable")
@settings(max_examples=100)
@given(
    kind=st.sampled_from(["outcomes", "events"]),
    mutation=st.sampled_from(FAULTS),
    seed=seeds,
    fraction=st.floats(0, 1, exclude_max=True),
    cuts=cuts,
)
def test_every_fault_is_found_in_pieces(
    kind: str,
    mutation: Callable[[History, list[Record], int], None],
    seed: int,
    fraction: float,
    cuts: list[int],
) -> None:
    """Each fault is found in pieces, even across a cut, with the same findings as in one go."""
    history = History(random_commands(seed))
    ranges = verify_ranges(history, cuts)
    log: list[Record] = getattr(history, kind)
    index = int(fraction * len(log))
    if mutation.__name__ == "swap" and index == 0:
        return
    mutation(history, log, index)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        verifier = IncrementalVerifier(history, Path(folder))
        reports = [verifier.verify(verify_range) for verify_range in ranges]
    assert reports[-1] == history.verify()


@pytest.mark.parametrize("before", [0, 1])
def test_expired_offset_leaves_no_command_out(tmp_path: Path, before: int) -> None:
    """No owner is active that could have decided some of the commands just now."""
    history = History([PlannedCommand(1, id=str(number)) for number in range(3)])
    expired = whole_range(history)
    expired.before, expired.after = history.commands[before].offset, None
    assert IncrementalVerifier(history, tmp_path).verify(expired).commands == 3


def test_deleted_records_stay_verified(tmp_path: Path) -> None:
    """Retention deletes all records that a verify has read, and also unread commands."""
    history = History(random_commands(7))
    verifier = IncrementalVerifier(history, tmp_path)
    first, last = verify_ranges(history, [20])
    verifier.verify(first)
    last.starts = {kind: first.ends[kind] for kind in LOGS if kind != "events"}
    last.starts["commands"] = history.commands[25].offset
    report = verifier.verify(last)
    assert (verifier.restart_reasons, report.violations) == ([], ())
    assert report.deleted == {"commands": 5, "outcomes": 0, "dead-letters": 0}
    assert report.outcomes == 40


def test_unread_deleted_outcomes_are_counted(tmp_path: Path) -> None:
    history = History(random_commands(7))
    verifier = IncrementalVerifier(history, tmp_path)
    first, last = verify_ranges(history, [20])
    verifier.verify(first)
    last.starts = {"outcomes": history.outcomes[24].offset}
    missing = command_of_outcome(history.outcomes.pop(30))
    report = verifier.verify(last)
    assert (verifier.restart_reasons, report.deleted["outcomes"]) == ([], 4)
    assert ("commands", missing, "has no outcome") in report.violations


def test_unread_deleted_events_are_found(tmp_path: Path) -> None:
    history = History(random_commands(7))
    verifier = IncrementalVerifier(history, tmp_path)
    first, last = verify_ranges(history, [20])
    verifier.verify(first)
    last.starts = {
        "events": next(event.offset for event in history.events if event.offset > first.ends["events"])
    }
    report = verifier.verify(last)
    assert verifier.restart_reasons == ["events were deleted that no verify has read"]
    assert "is where the log starts: events were deleted" in [
        violation.problem for violation in report.violations
    ]


def test_earlier_offset_restarts_verification(tmp_path: Path) -> None:
    history = History(random_commands(7))
    verifier = IncrementalVerifier(history, tmp_path)
    for verify_range in verify_ranges(history, [20]):
        verifier.verify(verify_range)
    history.committed = history.commands[9].offset
    assert verifier.verify(whole_range(history)) == history.verify()
    assert verifier.restart_reasons == [f"the committed offset went back to {history.committed}"]


def test_dropped_outcome_restarts_verification(tmp_path: Path) -> None:
    """A command repeats another command that should have been forgotten."""
    history = History(
        [PlannedCommand(1, id="x"), *[PlannedCommand(1, wait=WINDOW // 4)] * 30, PlannedCommand(1, id="x")]
    )
    verifier = IncrementalVerifier(history, tmp_path)
    verifier.verify(verify_ranges(history, [20])[0])
    history.decide(window=30 * WINDOW)
    assert verifier.verify(whole_range(history)) == history.verify()
    assert verifier.restart_reasons == [
        "command 0 is the original of a duplicate, and its index entry was dropped"
    ]


def test_lost_offset_needs_no_restart(tmp_path: Path) -> None:
    history = History(random_commands(7))
    verifier = IncrementalVerifier(history, tmp_path)
    first, last = verify_ranges(history, [20])
    verifier.verify(first)
    last.before = last.after = None
    assert verifier.verify(last) == history.verify(committed=(None, None))
    assert verifier.restart_reasons == []


def test_old_outcomes_are_dropped(tmp_path: Path) -> None:
    """Outcomes that can no longer be repeated are dropped, so the checkpoint does not grow with the history."""
    history = History([PlannedCommand(1, wait=WINDOW // 4) for _ in range(40)])
    verifier = IncrementalVerifier(history, tmp_path)
    for verify_range in verify_ranges(history, [20]):
        assert verifier.verify(verify_range).violations == ()
    for kind, count in (("outcomes", 5), ("events", 0), ("dead-letters", 0)):
        with closing(EntryIndex(tmp_path / "2" / kind)) as entry_index:
            assert len(list(entry_index.entries())) == count


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize(("first_shift", "second_shift"), [(-1, 0), (-2, -1), (-2, 0), (-3, -1)])
def test_order_is_checked_across_pieces(
    tmp_path: Path, kind: LogName, first_shift: int, second_shift: int
) -> None:
    """Two records are swapped around the last record that was read. Each fault is reported once."""
    history = History([PlannedCommand(10 if index % 2 else 1) for index in range(40)])
    verifier = IncrementalVerifier(history, tmp_path)
    first = verify_ranges(history, [20], (8, 8, 8, 8))[0]
    log = {"outcomes": history.outcomes, "events": history.events, "dead-letters": history.letters}[kind]
    end = next(index for index, record in enumerate(log) if record.offset >= first.ends[kind])
    swap_records(log, end + first_shift, end + second_shift)
    verifier.verify(first)
    report = verifier.verify(whole_range(history))
    assert (report, verifier.restart_reasons) == (history.verify(), [])
    assert any("and comes after command" in problem for _, _, problem in report.violations)


def test_undecided_commands_are_left_for_later(tmp_path: Path) -> None:
    """An owner decides them while the logs are read, so the next verify checks them."""
    history = History(random_commands(7))
    report = IncrementalVerifier(history, tmp_path).verify(verify_ranges(history, [20], (6, 6, 6, 6))[0])
    assert (report.commands, report.violations) == (20, ())


def test_first_version_is_known_in_pieces(tmp_path: Path) -> None:
    """The events were read from the first on, so a new aggregate must start with version 1."""
    history = History([PlannedCommand(1), PlannedCommand(1), PlannedCommand(1, "new")])
    history.events[-1] = changed_record(history.events[-1], aggregateversion=7)
    history.outcomes[-1] = changed_record(history.outcomes[-1], {"version": 7})
    verifier = IncrementalVerifier(history, tmp_path)
    assert verifier.verify(verify_ranges(history, [2])[0]).violations == ()
    report = verifier.verify(whole_range(history))
    assert (report, verifier.restart_reasons) == (history.verify(), [])
    assert len(report.violations) == 1
