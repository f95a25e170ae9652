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
from cqrs_cli.state.trace_index import TraceIndex
from tests.proof.faults import FAULTS
from tests.proof.history import WINDOW, History, Wish, drawn, seeds, swapped
from tests.proof.incremental import IN_MEMORY, LOGS, Pieces, looks, whole
from tests.proof.violations import outcome_of
from tests.support.foreign_records import edited

cuts = st.lists(st.integers(0, 40), min_size=1, max_size=3)
ahead = st.tuples(*[st.integers(0, 6)] * 4)


@pytest.mark.covers("verifiable")
@settings(max_examples=50)
@given(seed=seeds, cuts=cuts, ahead=ahead)
def test_clean_pieces_prove_the_whole(seed: int, cuts: list[int], ahead: tuple[int, ...]) -> None:
    """A correct history has no finding at any cut, although an owner is active, and no record is read twice."""
    history = History(drawn(seed))
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        pieces = Pieces(history, Path(folder))
        reports = [pieces.verify(look) for look in looks(history, cuts, ahead)]
    assert [report.violations for report in reports] == [()] * len(reports)
    assert reports[-1] == history.prove()
    assert pieces.again == []


@pytest.mark.covers("verifiable")
@settings(max_examples=100)
@given(
    kind=st.sampled_from(["outcomes", "events"]),
    mutation=st.sampled_from(FAULTS),
    seed=seeds,
    place=st.floats(0, 1, exclude_max=True),
    cuts=cuts,
)
def test_every_fault_is_found_in_pieces(
    kind: str,
    mutation: Callable[[History, list[Record], int], None],
    seed: int,
    place: float,
    cuts: list[int],
) -> None:
    """Each fault is found in pieces, even across a cut, with the same findings as in one go."""
    history = History(drawn(seed))
    seen = looks(history, cuts)
    log: list[Record] = getattr(history, kind)
    at = int(place * len(log))
    if mutation.__name__ == "swap" and at == 0:
        return
    mutation(history, log, at)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        pieces = Pieces(history, Path(folder))
        reports = [pieces.verify(look) for look in seen]
    assert reports[-1] == history.prove()


@pytest.mark.parametrize("before", [0, 1])
def test_expired_offset_leaves_no_command_out(tmp_path: Path, before: int) -> None:
    """No owner is active that could have decided some of the commands just now."""
    history = History([Wish(1, id=str(number)) for number in range(3)])
    expired = whole(history)
    expired.before, expired.after = history.commands[before].offset, None
    assert Pieces(history, tmp_path).verify(expired).commands == 3


def test_deleted_records_stay_proved(tmp_path: Path) -> None:
    """Retention deletes all records that a verify has read, and also unread commands."""
    history = History(drawn(7))
    pieces = Pieces(history, tmp_path)
    first, last = looks(history, [20])
    pieces.verify(first)
    last.starts = {kind: first.ends[kind] for kind in LOGS if kind != "events"}
    last.starts["commands"] = history.commands[25].offset
    report = pieces.verify(last)
    assert (pieces.again, report.violations) == ([], ())
    assert report.deleted == {"commands": 5, "outcomes": 0, "dead-letters": 0}
    assert report.outcomes == 40


def test_unread_deleted_outcomes_are_counted(tmp_path: Path) -> None:
    history = History(drawn(7))
    pieces = Pieces(history, tmp_path)
    first, last = looks(history, [20])
    pieces.verify(first)
    last.starts = {"outcomes": history.outcomes[24].offset}
    missing = outcome_of(history.outcomes.pop(30))
    report = pieces.verify(last)
    assert (pieces.again, report.deleted["outcomes"]) == ([], 4)
    assert ("commands", missing, "has no outcome") in report.violations


def test_unread_deleted_events_are_found(tmp_path: Path) -> None:
    history = History(drawn(7))
    pieces = Pieces(history, tmp_path)
    first, last = looks(history, [20])
    pieces.verify(first)
    last.starts = {"events": next(one.offset for one in history.events if one.offset > first.ends["events"])}
    report = pieces.verify(last)
    assert pieces.again == ["events were deleted that no verify has read"]
    assert "is where the log starts: events were deleted" in [one.problem for one in report.violations]


def test_offset_set_back_begins_again(tmp_path: Path) -> None:
    history = History(drawn(7))
    pieces = Pieces(history, tmp_path)
    for look in looks(history, [20]):
        pieces.verify(look)
    history.committed = history.commands[9].offset
    assert pieces.verify(whole(history)) == history.prove()
    assert pieces.again == [f"the committed offset went back to {history.committed}"]


def test_dropped_outcome_begins_again(tmp_path: Path) -> None:
    """A command repeats another command that should have been forgotten."""
    history = History([Wish(1, id="x"), *[Wish(1, wait=WINDOW // 4)] * 30, Wish(1, id="x")])
    pieces = Pieces(history, tmp_path)
    pieces.verify(looks(history, [20])[0])
    history.decide(window=30 * WINDOW)
    assert pieces.verify(whole(history)) == history.prove()
    assert pieces.again == ["command 0 is pointed to, and its outcome was not kept"]


def test_lost_offset_needs_no_beginning(tmp_path: Path) -> None:
    history = History(drawn(7))
    pieces = Pieces(history, tmp_path)
    first, last = looks(history, [20])
    pieces.verify(first)
    last.before = last.after = None
    assert pieces.verify(last) == history.prove(seen=(None, None))
    assert pieces.again == []


def test_old_outcomes_are_dropped(tmp_path: Path) -> None:
    """Outcomes that can no longer be repeated are dropped, so the checkpoint does not grow with the history."""
    history = History([Wish(1, wait=WINDOW // 4) for _ in range(40)])
    pieces = Pieces(history, tmp_path)
    for look in looks(history, [20]):
        assert pieces.verify(look).violations == ()
    for kind, count in (("outcomes", 5), ("events", 0), ("dead-letters", 0)):
        with closing(TraceIndex(tmp_path / "2" / kind)) as kept:
            assert len(list(kept.entries())) == count


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize(("one", "other"), [(-1, 0), (-2, -1), (-2, 0), (-3, -1)])
def test_order_is_looked_at_across_pieces(tmp_path: Path, kind: LogName, one: int, other: int) -> None:
    """Two records are swapped around the last record that was read. Each fault is reported once."""
    history = History([Wish(10 if at % 2 else 1) for at in range(40)])
    pieces = Pieces(history, tmp_path)
    first = looks(history, [20], (8, 8, 8, 8))[0]
    log = {"outcomes": history.outcomes, "events": history.events, "dead-letters": history.letters}[kind]
    end = next(at for at, record in enumerate(log) if record.offset >= first.ends[kind])
    swapped(log, end + one, end + other)
    pieces.verify(first)
    report = pieces.verify(whole(history))
    assert (report, pieces.again) == (history.prove(), [])
    assert any("and comes after command" in what for _, _, what in report.violations)


def test_commands_under_way_are_left(tmp_path: Path) -> None:
    """An owner decides them while the logs are read, so the next verify checks them."""
    history = History(drawn(7))
    report = Pieces(history, tmp_path).verify(looks(history, [20], (6, 6, 6, 6))[0])
    assert (report.commands, report.violations) == (20, ())


def test_first_version_is_known_in_pieces(tmp_path: Path) -> None:
    """The events were read from the first on, so a new aggregate must start with version 1."""
    history = History([Wish(1), Wish(1), Wish(1, "new")])
    history.events[-1] = edited(history.events[-1], aggregateversion=7)
    history.outcomes[-1] = edited(history.outcomes[-1], {"version": 7})
    pieces = Pieces(history, tmp_path)
    assert pieces.verify(looks(history, [2])[0]).violations == ()
    report = pieces.verify(whole(history))
    assert (report, pieces.again) == (history.prove(), [])
    assert len(report.violations) == 1
