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
from cqrs_cli.state.trace_index import TraceIndex
from tests.proof.history import History, appended, begun_again, wish
from tests.proof.incremental import LOGS, Look, Pieces, looks, whole


@pytest.fixture
def index(tmp_path: Path) -> Iterator[TraceIndex]:
    """Index entries of the commands 4, 5 and 7."""
    with closing(TraceIndex(tmp_path)) as opened:
        for command in (4, 5, 7):
            opened.add_entry(command, b"%d" % command)
        yield opened


def test_kept_traces_are_looked_up(index: TraceIndex) -> None:
    bounded = BoundedIndex(index, 5)
    assert [bounded.find_entry(command) for command in (4, 5, 6, 7)] == [b"4", b"5", None, b"7"]
    assert (bounded.first_command(), bounded.last_command()) == (5, 7)
    assert list(bounded.entries()) == [(5, b"5"), (7, b"7")]
    assert (bounded.add_entry(5, b""), bounded.add_entry(8, b"8"), bounded.delete_from(5)) == (b"5", None, 3)
    assert BoundedIndex(index, 5).first_command() is None


def test_proved_commands_stay_as_they_are(index: TraceIndex) -> None:
    bounded = BoundedIndex(index, 5)
    with pytest.raises(CheckpointUnusableError, match=r"^command 4 has a record that comes after its proof$"):
        bounded.add_entry(4, b"")
    with pytest.raises(CheckpointUnusableError, match=r"^command 4 is where the commands began again$"):
        bounded.delete_from(4)
    assert list(index.entries()) == [(4, b"4"), (5, b"5"), (7, b"7")]


def test_missing_trace_may_be_dropped(index: TraceIndex) -> None:
    """A command before the first command with records may also never have had an entry."""
    bounded = BoundedIndex(index, 5)
    for command in (0, 3):
        with pytest.raises(
            CheckpointUnusableError, match=rf"^command {command} is pointed to, and its outcome was not"
        ):
            bounded.find_entry(command)
    bounded.first_known = 3
    assert bounded.find_entry(2) is None
    with pytest.raises(CheckpointUnusableError, match=r"^command 3 is pointed to"):
        bounded.find_entry(3)


CARRIED = VerificationCheckpoint(
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
    check_continuation(CARRIED, {"events": 8}, None)
    with pytest.raises(CheckpointUnusableError, match="events were deleted that no verify has read"):
        check_continuation(CARRIED, {"events": 9}, None)


def test_another_loss_begins_again() -> None:
    loss = Loss(3, 4, 5)
    check_continuation(replace(CARRIED, loss=loss), {"events": 0}, loss)
    for before, now in ((None, loss), (loss, None), (loss, loss._replace(restart_command=4))):
        with pytest.raises(CheckpointUnusableError, match="an operator has accepted a loss since"):
            check_continuation(replace(CARRIED, loss=before), {"events": 0}, now)


def read_up_to(history: History, committed: int, events: int) -> Look:
    """Return the range of a verify while an owner writes a command's events, up to the offset `events`."""
    (first, _) = looks(history, [[one.offset for one in history.commands].index(committed)])
    return Look(first.before, history.committed, {**first.ends, "events": events})


@pytest.mark.parametrize("committed", [5, 6])
def test_events_go_on_where_they_were_open(history: History, tmp_path: Path, committed: int) -> None:
    """Two of the three events of command 6 exist."""
    pieces = Pieces(history, tmp_path)
    assert pieces.verify(read_up_to(history, committed, 6)).violations == ()
    carried = load_checkpoint(tmp_path / "1")
    assert carried.open_events is not None
    command, events = carried.open_events
    assert (command, events.offset, events.count, events.events_read) == (6, 4, 3, 2)
    assert (carried.verified_until, carried.last_commands["events"]) == (committed, 1)
    assert pieces.verify(whole(history)) == history.prove()
    assert pieces.again == []


def test_proved_events_are_not_open(history: History, tmp_path: Path) -> None:
    Pieces(history, tmp_path).verify(read_up_to(history, 8, 7))
    carried = load_checkpoint(tmp_path / "1")
    assert (carried.open_events, carried.last_commands["events"]) == (None, 6)


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize("kind", LOGS)
def test_record_after_its_proof_begins_again(history: History, tmp_path: Path, kind: LogName) -> None:
    pieces = Pieces(history, tmp_path)
    pieces.verify(looks(history, [8])[0])
    log = {"outcomes": history.outcomes, "events": history.events, "dead-letters": history.letters}[kind]
    appended(log, log[0])
    assert pieces.verify(whole(history)) == history.prove()
    assert pieces.again == [
        f"command {9 if kind == 'dead-letters' else 0} has a record that comes after its proof"
    ]


def test_beginning_stays_known(history: History, tmp_path: Path) -> None:
    """The events that were read have been deleted since."""
    pieces = Pieces(history, tmp_path)
    first, last = looks(history, [5])
    pieces.verify(first)
    last.starts = {"events": first.ends["events"]}
    pieces.verify(last)
    assert (pieces.again, [load_checkpoint(tmp_path / name).events_complete for name in "12"]) == (
        [],
        [True, True],
    )
    Pieces(history, tmp_path / "other").verify(last)
    assert not load_checkpoint(tmp_path / "other" / "1").events_complete


def test_loss_is_carried(history: History, tmp_path: Path) -> None:
    del history.outcomes[1:4], history.events[2]
    loss, pieces = Loss(5, 0, 0), Pieces(history, tmp_path)
    for look in looks(history, [6]):
        look.loss = loss
        assert pieces.verify(look).violations == ()
    assert (pieces.again, load_checkpoint(tmp_path / "2").loss) == ([], loss)


def test_loss_may_end_in_open_events(tmp_path: Path) -> None:
    """The first events after the loss are the last that were read."""
    loss = Loss(0, 9, 9)
    history = begun_again(History([wish(1), wish(1)]), loss)
    pieces = Pieces(history, tmp_path)
    ends: dict[LogName, int] = {"outcomes": 10, "events": 10, "dead-letters": 0}
    first = Look(0, 2, ends, loss=loss)
    assert pieces.verify(first).violations == ()
    last = whole(history)
    last.loss = loss
    assert pieces.verify(last) == history.prove(loss=loss)
    assert pieces.again == []


def test_first_command_must_be_there(history: History, tmp_path: Path) -> None:
    del history.commands[2]
    look = whole(history)
    look.starts = {"commands": 2}
    (violation,) = Pieces(history, tmp_path).verify(look).violations
    assert violation == ("outcomes", 2, "is of command 2, which does not exist")
