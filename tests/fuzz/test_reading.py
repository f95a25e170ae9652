"""Any event, outcome, claim, state file or command line is read, or rejected with a one-line error."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregates import bank_account
from cqrs_cli.cli.output import json_line
from cqrs_cli.cli.render.record import record_document, record_line
from cqrs_cli.cli.render.send import outcome_line
from cqrs_cli.client.send import read_lines
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import FoldError, fold_event
from cqrs_cli.core.messages.event import HEADERS, read_event
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.record import Headers, Record
from cqrs_cli.core.stored import DedupEntry, restore_dedup_entry
from cqrs_cli.deciding.packing import pack
from cqrs_cli.deciding.recover import parse_outcome
from cqrs_cli.errors import CqrsError, UsageError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.embedded import files
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.tailing import Origin
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import Claim, parse_claim
from cqrs_cli.scans.replay.fold import ReplayFold, ReplayFoldError
from cqrs_cli.settings.durations import parse_duration, show_duration
from cqrs_cli.state.encoding import encode_dedup_entries, encode_states
from tests.fuzz.damage import FOREIGN, damaged_bytes, damaged_documents, damaged_texts

ACCOUNT = Aggregate.of("bank_account", bank_account.decider)
EVENT: dict[str, Any] = {
    "specversion": "1.0",
    "id": "3/18274/0",
    "source": "/cqrs/bank_account",
    "type": "bank_account.Opened",
    "subject": "acc-42",
    "time": "2026-11-21T01:02:03.456Z",
    "causationid": "c1",
    "correlationid": "order-9",
    "aggregateversion": 1,
    "eventindex": 0,
    "eventcount": 1,
    "data": {"owner": "ann"},
}
VERDICT: dict[str, Any] = {
    "status": "duplicate",
    "version": 9,
    "events": 0,
    "partition": 3,
    "offset": 18274,
    "fingerprint": 2774519872,
    "original": {"offset": 7, "status": "accepted", "version": 8, "events": 1},
}
OUTCOME: dict[str, Any] = {**EVENT, "id": "3/18274", "type": "bank_account.Open.duplicate", "data": VERDICT}
ACCEPTED: dict[str, Any] = {**OUTCOME, "data": {**VERDICT, "status": "accepted"}}
COMMAND_LINE: dict[str, Any] = {"type": "bank_account.Deposit", "subject": "acc-42", "data": {"amount": 5}}
DEEP_JSON = b'{"x":' * 100_000

events = damaged_bytes([json.dumps(EVENT).encode()]) | damaged_documents([EVENT])
outcomes = st.one_of(
    damaged_bytes([json.dumps(OUTCOME).encode(), json.dumps(ACCEPTED).encode(), *FOREIGN.values()]),
    damaged_documents([OUTCOME, ACCEPTED]),
    damaged_documents([VERDICT, ACCEPTED["data"]]).map(
        lambda data: json.dumps(OUTCOME).encode()[:-1] + b',"data":%b}' % data
    ),
)


def record(value: bytes | None, offset: int = 0) -> Record:
    return Record(offset, 0, b"acc-42", value, [*HEADERS])


@given(st.none() | events)
def test_any_event_is_folded_or_rejected(value: bytes | None) -> None:
    try:
        folded = fold_event(ACCOUNT, None, read_event(value))
        encode_states({"acc-42": pack(ACCOUNT, "acc-42", folded)})
        can_be_folded = True
    except (ValueError, FoldError):
        can_be_folded = False
    replay_fold = ReplayFold(ACCOUNT)
    try:
        replay_fold.fold([value], lambda index: 7)
    except ReplayFoldError as error:
        assert not can_be_folded
        assert str(error).startswith("offset 7: ")
    replay_fold.total()


@given(st.none() | outcomes)
def test_any_outcome_is_stored_or_rejected(value: bytes | None) -> None:
    try:
        outcome = parse_outcome(
            PartitionLog(Connection("nowhere:1"), Topics("bank_account"), 3), record(value)
        )
    except CqrsError as error:
        assert "offset 0: not an outcome" in error.message
        assert error.exit_code == 5
    else:
        entries: dict[tuple[str, str], DedupEntry] = {}
        restore_dedup_entry(entries, outcome, 0)
        encode_dedup_entries(entries)
        assert outcome_line(outcome).isprintable()


@given(
    st.none() | events | outcomes,
    st.none() | st.binary(max_size=6),
    st.none() | st.lists(st.tuples(st.text(max_size=6), st.none() | st.binary(max_size=6)), max_size=4),
    st.integers(-(2**63), 2**63 - 1),
)
def test_any_record_can_be_shown(
    value: bytes | None, key: bytes | None, headers: Headers | None, timestamp: int
) -> None:
    record = Record(0, timestamp, key, value, headers)
    assert record_line(0, record).isprintable()
    line = json_line(record_document(0, record))
    assert b"\n" not in line
    assert json.loads(line)["offset"] == 0


CLAIM = Claim(1_795_221_000_000, "0123456789ab", 0, 1, 7, "topic-id", 4).metadata().encode()


@given(damaged_texts([CLAIM]) | damaged_documents([json.loads(CLAIM)]).map(bytes.decode))
def test_any_metadata_is_claim_or_none(text: str) -> None:
    claim = parse_claim(text)
    assert claim is None or isinstance(claim.token, str)


@given(
    st.lists(
        damaged_bytes([json.dumps(COMMAND_LINE).encode()])
        | damaged_documents([COMMAND_LINE, {**COMMAND_LINE, "id": "1", "source": "/s"}])
    )
)
def test_the_first_bad_line_is_named(lines: list[bytes]) -> None:
    lines = [line.replace(b"\n", b" ") + b"\n" for line in lines]
    ready_commands = []
    try:
        for command in read_lines(lines, {"bank_account": ACCOUNT}):
            ready_commands.append(command)
            document = msgspec.json.decode(command.value, type=dict[str, msgspec.Raw])
            assert {"specversion", "id", "source", "type", "subject"} <= document.keys()
            assert (command.aggregate, b"\n" in command.value) == ("bank_account", False)
    except UsageError as error:
        line_count = sum(not line.isspace() for line in lines[: int(error.message.split()[1].rstrip(":"))])
        assert len(ready_commands) == line_count - 1


@given(
    damaged_texts([b"1h30m", b"7d", b"500ms"]),
    damaged_texts([b"2026-11-21T01:02:03.5Z", b"beginning", b"25", b"9999-12-31T23:59:60+14:00"]),
)
def test_any_time_is_parsed_or_rejected(duration: str, origin: str) -> None:
    try:
        assert parse_duration(show_duration(parse_duration(duration))) == parse_duration(duration)
    except ValueError as error:
        assert len(str(error)) < 300
    try:
        assert Origin.parse(origin).kind in ("beginning", "end", "offset", "time")
    except ValueError as error:
        assert len(str(error)) < 300


@given(
    damaged_bytes(
        [
            b'{"pid":1,"born":"b:1","place":"1:2","port":2,"controller_port":3,"cluster_id":"c","version":"4.1.0"}'
        ]
    )
)
def test_any_broker_state_file_is_read(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "broker-state"
    folder.mkdir(exist_ok=True)
    (folder / files.STATE_FILE).write_bytes(text)
    state = files.read_state(folder)
    assert state is None or isinstance(state, files.BrokerState)


def test_deep_nesting_is_rejected() -> None:
    for read in (read_event, read_outcome):
        with pytest.raises(ValueError, match=r"nested too deeply|Input data was truncated"):
            read(DEEP_JSON)
    assert parse_claim('{"x":' * 10_000) is None
    with pytest.raises(UsageError, match=r"line 2: (nested too deeply|Input data was truncated)"):
        list(read_lines([b"\n", DEEP_JSON], {"bank_account": ACCOUNT}))
    record_line(0, record(DEEP_JSON))
    assert json_line(record_document(0, record(DEEP_JSON)))
