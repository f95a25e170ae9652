"""Deciding a batch: outcomes, dead letters and remembered ids."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli import Decider
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import DecisionInterrupted
from cqrs_cli.core.decide import Batch
from cqrs_cli.core.messages.record import Record
from tests.core import tally
from tests.core.tally import WINDOW, Partition, command, record


def test_failed_command_becomes_a_dead_letter() -> None:
    partition = Partition()
    verdict = partition.verdict(record(0, command("Nope")))
    assert verdict["retryable"] is False and "fingerprint" in verdict
    assert partition.last_outcome()["type"] == "cqrs.failed"
    assert partition.verdict(record(1, command()))["status"] == "accepted"
    (letter,) = partition.dead_letters
    assert letter.value == command("Nope")
    assert dict(letter.headers)["cqrs.reason"] == b"UNKNOWN_TYPE"
    assert dict(letter.headers)["cqrs.offset"] == b"0"


def test_unreadable_record_has_no_subject() -> None:
    partition = Partition()
    verdict = partition.verdict(record(7, b"?", b"\xff"))
    assert (
        not {"subject", "causationid", "correlationid", "traceparent", "tracestate"}
        & partition.last_outcome().keys()
    )
    assert partition.outcomes[0][1] == b"\xff" and "fingerprint" not in verdict
    assert verdict["partition"] == 3 and verdict["offset"] == 7 and verdict["version"] == 0


def test_duplicate_points_to_first_decision() -> None:
    partition = Partition()
    partition.decide(record(0, command(data={"n": 2})), record(1, command(id="2")))
    verdict = partition.verdict(record(2, command(data={"n": 2})))
    assert verdict["status"] == "duplicate" and verdict["version"] == 3
    assert verdict["original"] == {"offset": 0, "status": "accepted", "version": 2, "events": 2}


def test_id_is_forgotten_after_its_window() -> None:
    partition = Partition()
    partition.decide(record(0, command(), timestamp=5000))
    assert partition.verdict(record(1, command(), timestamp=5000 + WINDOW))["status"] == "duplicate"
    assert partition.verdict(record(2, command(), timestamp=5001 + WINDOW))["status"] == "accepted"


def test_forgotten_id_stays_forgotten() -> None:
    partition = Partition()
    partition.decide(record(0, command(), timestamp=5000), record(1, command(id="2"), timestamp=7000))
    assert partition.verdict(record(2, command(), timestamp=5000))["status"] == "accepted"


@pytest.mark.covers("bad-input")
@pytest.mark.parametrize("mode", ["memory", "files", "exit", "fold-memory", "unread"])
def test_process_error_interrupts_the_batch(mode: str) -> None:
    with pytest.raises(DecisionInterrupted) as raised:
        Partition().decide(record(0, command()), record(1, command("Crash", {"mode": mode}, id="2")))
    assert (raised.value.offset, raised.value.decided_count, raised.value.__context__) == (1, 1, None)
    assert str(raised.value).startswith("tally.py:")


@pytest.mark.covers("bad-input")
@pytest.mark.parametrize("mode", ["", "-text", "-mumble", "-fold", "-unread"])
def test_interrupt_by_code_is_an_exception(mode: str) -> None:
    """An owner is a thread, and Ctrl-C is raised in the main thread."""
    interrupting_record = record(0, command("Crash", {"mode": f"interrupt{mode}"}))
    with ThreadPoolExecutor() as owner:
        verdict = owner.submit(Partition().verdict, interrupting_record).result()
    assert (verdict["status"], verdict["reason"]) == ("failed", "HANDLER_ERROR")


def test_interrupt_in_the_main_thread_is_raised() -> None:
    with pytest.raises(KeyboardInterrupt):
        Partition().decide(record(0, command("Crash", {"mode": "interrupt"})))


@pytest.mark.covers("bad-input")
@pytest.mark.parametrize("mode", ["trace", "profile"])
def test_trace_function_of_code_ends(mode: str) -> None:
    """A function that raises interrupts its own command, not the commands of other batches."""

    def decide() -> str:
        try:
            Partition().decide(record(0, command()), record(1, command("Crash", {"mode": mode}, id="2")))
        except DecisionInterrupted as error:
            return f"{error.offset}: {error}, {sys.gettrace()}, {sys.getprofile()}"
        return f"{sys.gettrace()}, {sys.getprofile()}"

    with ThreadPoolExecutor() as owner:
        result = owner.submit(decide).result()
    assert result.endswith("None, None")
    assert result.startswith("1: tally.py:" if mode == "trace" else "None")


def test_poison_command_fails_without_code() -> None:
    partition = Partition(poison_reasons={1: "the worker died"})
    partition.decide(record(0, command()))
    verdict = partition.verdict(record(1, command("Crash", {"mode": "unread"}, id="2")), record(2, command()))
    assert verdict["status"] == "duplicate"
    failed = json.loads(partition.outcomes[1][0])
    assert failed["subject"] == "a" and failed["causationid"] == "2"
    verdict_fields = {name: failed["data"][name] for name in ("status", "reason", "message", "version")}
    assert verdict_fields == {
        "status": "failed",
        "reason": "HANDLER_ERROR",
        "message": "the worker died",
        "version": 1,
    }
    assert partition.dead_letters[0].value == command("Crash", {"mode": "unread"}, id="2")


def test_letter_of_given_up_offset_is_empty() -> None:
    partition = Partition(force_failed=frozenset({4}))
    verdict = partition.verdict(record(4, command()), record(5, command()))
    assert verdict["status"] == "accepted"
    assert json.loads(partition.outcomes[0][0])["data"]["reason"] == "TOO_LARGE"
    assert partition.dead_letters[0].value is None


def test_event_and_outcome_are_as_documented() -> None:
    partition = Partition()
    partition.decide(record(18274, command(correlationid="order-9"), timestamp=1763686923456))
    assert json.loads(partition.events[0][0]) == {
        "specversion": "1.0",
        "id": "3/18274/0",
        "source": "/cqrs/tally",
        "type": "tally.Added",
        "subject": "a",
        "time": "2025-11-21T01:02:03.456Z",
        "causationid": "1",
        "correlationid": "order-9",
        "aggregateversion": 1,
        "eventindex": 0,
        "eventcount": 1,
        "data": {"n": 1},
    }
    assert partition.last_outcome()["id"] == "3/18274"
    assert partition.last_outcome()["type"] == "tally.Add.accepted"


def line_number(code: str) -> int:
    """Return the number of the only line of the aggregate's file with this code."""
    lines = [line.strip() for line in Path(tally.__file__).read_text().splitlines()]
    assert lines.count(code) == 1
    return lines.index(code) + 1


@pytest.mark.parametrize(
    ("mode", "code", "text"),
    [
        ("raise", 'raise RuntimeError("boom")', "RuntimeError: boom"),
        ("mute", "raise UnprintableError", "UnprintableError"),
        ("mumble", 'raise RuntimeError("no text")', "RuntimeError: no text"),
        ("fold", 'raise cqrs.Rejected("too late to refuse")', "Rejected: too late to refuse"),
        ("undone", "raise LookupError(self.mode)", "LookupError: undone"),
    ],
)
def test_handler_error_names_its_line(mode: str, code: str, text: str) -> None:
    partition = Partition()
    verdict = partition.verdict(record(0, command("Crash", {"mode": mode})))
    assert verdict["message"] == f"tally.py:{line_number(code)}: {text}"
    (letter,) = partition.dead_letters
    assert dict(letter.headers)["cqrs.message"] == verdict["message"].encode()


def test_events_are_counted_in_all_pieces() -> None:
    batch = Partition().batch()
    assert batch.counts["events"] == 0
    for offset, n in enumerate((2, 3)):
        batch.decide_piece([record(offset, command(data={"n": n}, id=str(n)))])
    assert batch.counts["events"] == 5


def test_piece_ends_beyond_its_bytes() -> None:
    """A piece with exactly the limit of bytes continues."""
    records = [record(offset, command(id=str(offset))) for offset in range(3)]
    size = len(Partition().decide(records[0]).events[0][0])
    assert len(Partition().batch().decide_piece(records, size).events) == 2
    assert len(Partition().batch().decide_piece(records, size - 1).events) == 1


def batch_of(decider: Decider[Any, Any, Any], **context: Any) -> Batch:
    """Return the first batch of another aggregate with the tally's commands."""
    return Batch(Aggregate.of("tally", decider), Partition(**context).batch().context)


def test_current_record_is_set_while_deciding() -> None:
    current_records: list[Record | None] = []

    def decide(command: tally.Add, state: tally.Tally) -> list[tally.Added]:
        current_records.append(batch.current_record)
        return []

    batch = batch_of(Decider(decide, tally.evolve, tally.Tally()))
    command_record = record(0, command())
    assert batch.current_record is None
    batch.decide_piece([command_record])
    assert (current_records, batch.current_record) == ([command_record], None)


def test_state_comes_from_earlier_batches() -> None:
    partition = Partition()
    for offset in range(3):
        partition.decide(record(offset, command(id=str(offset))))
    assert partition.states["a"].version == 3
    assert partition.states["a"].state == tally.Tally(3)


@pytest.mark.parametrize("attributes", [{}, {"expirytime": "2999-01-01T00:00:00Z"}], ids=["plain", "checked"])
def test_commands_see_earlier_changes(attributes: dict[str, str]) -> None:
    """Commands on the fast path and on the general path see the changes of earlier commands."""

    def decide(command: tally.Add, state: tally.Tally) -> list[tally.Added]:
        return [tally.Added(state.total + 1)]

    batch = batch_of(Decider(decide, tally.evolve, tally.Tally()))
    decisions = batch.decide_piece([record(n, command(id=str(n), **attributes)) for n in range(3)])
    assert [json.loads(value)["data"]["n"] for value, _, _ in decisions.events] == [1, 2, 4]


def test_state_of_another_class_is_refused() -> None:
    def evolve(state: tally.Tally, event: tally.Added) -> tally.Tally:
        return 1  # type: ignore[return-value]

    batch = batch_of(Decider(tally.decide, evolve, tally.Tally()))
    verdict = json.loads(batch.decide_piece([record(0, command())]).outcomes[0][0])["data"]
    assert verdict["reason"] == "HANDLER_ERROR"
    assert "evolve returned int, not Tally" in verdict["message"]


def test_payloads_of_all_commands_are_kept() -> None:
    def decide(command: tally.Add, state: tally.Tally) -> list[tally.Added]:
        return [tally.Added(command.n), tally.Added(command.n)]

    batch = batch_of(Decider(decide, tally.evolve, tally.Tally()), payload_threshold=6)
    decisions = batch.decide_piece([record(n, command(data={"n": n}, id=str(n))) for n in (1, 2)])
    assert list(decisions.payloads.values()) == [b'{"n":1}', b'{"n":2}']
