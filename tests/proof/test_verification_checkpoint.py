"""A continued verification reads entries of its checkpoint, and reports when it needs an entry that was not kept."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from cqrs_cli.proof.findings import LogName, Report
from cqrs_cli.proof.scope import Loss
from cqrs_cli.proof.verification_checkpoint import (
    BoundedIndex,
    CheckpointUnusableError,
    VerificationCheckpoint,
    check_continuation,
)
from cqrs_cli.scans.verify.checkpoint_files import load_checkpoint
from cqrs_cli.state.entry_index import EntryIndex
from tests.proof.history import History, append_record, plan_command, restarted_history
from tests.proof.incremental import LOGS, IncrementalVerifier, VerifyRange, verify_ranges, whole_range


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EntryIndex]:
    """Index entries of the commands 4, 5 and 7."""
    with closing(EntryIndex(tmp_path)) as index:
        for command in (4, 5, 7):
            index.add_entry(command, b"%d" % command)
        yield index


def test_kept_entries_are_found(index: EntryIndex) -> None:
    bounded = BoundedIndex(index, 5)
    assert [bounded.find_entry(command) for command in (4, 5, 6, 7)] == [b"4", b"5", None, b"7"]
    assert (bounded.first_command(), bounded.last_command()) == (5, 7)
    assert list(bounded.entries()) == [(5, b"5"), (7, b"7")]
    assert (bounded.add_entry(5, b""), bounded.add_entry(8, b"8"), bounded.delete_from(5)) == (b"5", None, 3)
    assert BoundedIndex(index, 5).first_command() is None


def test_verified_commands_cannot_change(index: EntryIndex) -> None:
    bounded = BoundedIndex(index, 5)
    with pytest.raises(
        CheckpointUnusableError, match=r"^command 4 has a record that was written after its verification$"
    ):
        bounded.add_entry(4, b"")
    with pytest.raises(CheckpointUnusableError, match=r"^command 4 is the first of a recreated topic$"):
        bounded.delete_from(4)
    assert list(index.entries()) == [(4, b"4"), (5, b"5"), (7, b"7")]


def test_missing_entry_may_be_dropped(index: EntryIndex) -> None:
    """A command before the first command with records may also never have had an entry."""
    bounded = BoundedIndex(index, 5)
    for command in (0, 3):
        with pytest.raises(
            CheckpointUnusableError,
            match=rf"^command {command} is the original of a duplicate, and its index entry was",
        ):
            bounded.find_entry(command)
    bounded.first_known = 3
    assert bounded.find_entry(2) is None
    with pytest.raises(CheckpointUnusableError, match=r"^command 3 is the original of a duplicate"):
        bounded.find_entry(3)


CHECKPOINT = VerificationCheckpoint(
    verified_until=5,
    read_until={"events": 8},
    report=Report(),
    last_commands={},
    topic_recreated={},
    open_events=None,
    open_deferrals={},
    first_known={},
    events_complete=True,
    loss=None,
    oldest_original=0,
)


def test_log_may_start_where_reading_ended() -> None:
    check_continuation(CHECKPOINT, {"events": 8}, None)
    with pytest.raises(CheckpointUnusableError, match="events were deleted that no verify has read"):
        check_continuation(CHECKPOINT, {"events": 9}, None)


def test_another_loss_restarts_verification() -> None:
    loss = Loss(3, 4, 5)
    check_continuation(replace(CHECKPOINT, loss=loss), {"events": 0}, loss)
    for old_loss, new_loss in ((None, loss), (loss, None), (loss, loss._replace(restart_command=4))):
        with pytest.raises(CheckpointUnusableError, match="an operator has accepted a loss since"):
            check_continuation(replace(CHECKPOINT, loss=old_loss), {"events": 0}, new_loss)


def read_up_to(history: History, committed: int, events: int) -> VerifyRange:
    """Return the range of a verify while an owner writes a command's events, up to the offset `events`."""
    (first, _) = verify_ranges(history, [[command.offset for command in history.commands].index(committed)])
    return VerifyRange(first.before, history.committed, {**first.ends, "events": events})


@pytest.mark.parametrize("committed", [5, 6])
def test_open_events_are_continued(history: History, tmp_path: Path, committed: int) -> None:
    """Two of the three events of command 6 exist."""
    verifier = IncrementalVerifier(history, tmp_path)
    assert verifier.verify(read_up_to(history, committed, 6)).violations == ()
    checkpoint = load_checkpoint(tmp_path / "1")
    assert checkpoint.open_events is not None
    command, events = checkpoint.open_events
    assert (command, events.offset, events.count, events.events_read) == (6, 4, 3, 2)
    assert (checkpoint.verified_until, checkpoint.last_commands["events"]) == (committed, 1)
    assert verifier.verify(whole_range(history)) == history.verify()
    assert verifier.restart_reasons == []


def test_verified_events_are_not_open(history: History, tmp_path: Path) -> None:
    IncrementalVerifier(history, tmp_path).verify(read_up_to(history, 8, 7))
    checkpoint = load_checkpoint(tmp_path / "1")
    assert (checkpoint.open_events, checkpoint.last_commands["events"]) == (None, 6)


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize("kind", LOGS)
def test_late_record_restarts_verification(history: History, tmp_path: Path, kind: LogName) -> None:
    verifier = IncrementalVerifier(history, tmp_path)
    verifier.verify(verify_ranges(history, [8])[0])
    log = {"outcomes": history.outcomes, "events": history.events, "dead-letters": history.letters}[kind]
    append_record(log, log[0])
    assert verifier.verify(whole_range(history)) == history.verify()
    assert verifier.restart_reasons == [
        f"command {9 if kind == 'dead-letters' else 0} has a record that was written after its verification"
    ]


def test_complete_events_stay_complete(history: History, tmp_path: Path) -> None:
    """The events that were read have been deleted since."""
    verifier = IncrementalVerifier(history, tmp_path)
    first, last = verify_ranges(history, [5])
    verifier.verify(first)
    last.starts = {"events": first.ends["events"]}
    verifier.verify(last)
    assert (
        verifier.restart_reasons,
        [load_checkpoint(tmp_path / name).events_complete for name in "12"],
    ) == (
        [],
        [True, True],
    )
    IncrementalVerifier(history, tmp_path / "other").verify(last)
    assert not load_checkpoint(tmp_path / "other" / "1").events_complete


def test_loss_is_in_the_checkpoint(history: History, tmp_path: Path) -> None:
    del history.outcomes[1:4], history.events[2]
    loss, verifier = Loss(5, 0, 0), IncrementalVerifier(history, tmp_path)
    for verify_range in verify_ranges(history, [6]):
        verify_range.loss = loss
        assert verifier.verify(verify_range).violations == ()
    assert (verifier.restart_reasons, load_checkpoint(tmp_path / "2").loss) == ([], loss)


def test_loss_may_end_in_open_events(tmp_path: Path) -> None:
    """The first events after the loss are the last that were read."""
    loss = Loss(0, 9, 9)
    history = restarted_history(History([plan_command(1), plan_command(1)]), loss)
    verifier = IncrementalVerifier(history, tmp_path)
    ends: dict[LogName, int] = {"outcomes": 10, "events": 10, "dead-letters": 0}
    first = VerifyRange(0, 2, ends, loss=loss)
    assert verifier.verify(first).violations == ()
    last = whole_range(history)
    last.loss = loss
    assert verifier.verify(last) == history.verify(loss=loss)
    assert verifier.restart_reasons == []


def test_first_command_must_be_there(history: History, tmp_path: Path) -> None:
    del history.commands[2]
    verify_range = whole_range(history)
    verify_range.starts = {"commands": 2}
    (violation,) = IncrementalVerifier(history, tmp_path).verify(verify_range).violations
    assert violation == ("outcomes", 2, "is of command 2, which does not exist")
