"""Any record of a commands topic has exactly one outcome, which keeps the contract. Other records are unaffected."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from aggregates import bank_account
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.fold import VersionedState, fold_event
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.expected_version import parse_expected
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.reasons import STATUSES, Reason
from cqrs_cli.core.messages.record import Headers, Record
from cqrs_cli.kafka.topics.topics import ENVELOPE_OVERHEAD
from tests.fuzz.damage import FOREIGN, damaged_bytes, damaged_documents, damaged_texts
from tests.support.commands import STRUCTURED_HEADERS, document

ACCOUNT = Aggregate.of("bank_account", bank_account.decider)
NOW = 1_795_221_000_000
FAILURES = {reason.name for reason in Reason if reason.status == "failed"}
REASONS = {status: {reason.name for reason in Reason if reason.status == status} for status in STATUSES}

COMMANDS = [
    document("bank_account.Open", "a", "c1", {"owner": "ann"}),
    document("bank_account.Deposit", "a", "c2", {"amount": 5}, expectedversion="1", correlationid="o"),
    document("bank_account.Withdraw", "a", "c3", {"amount": 1}, expectedversion=7),
    document("bank_account.Open", "a", "c4", {"owner": "bö"}, expirytime="2026-01-01T00:00:00Z", time="now"),
    document("bank_account.Deposit", "a", "c5", {"amount": 5}, expirytime="9999-12-31T23:59:59-23:59"),
]
VALID_VALUES = [
    json.dumps(command, ensure_ascii=number > 2).encode() for number, command in enumerate(COMMANDS)
]
BINARY_HEADERS: Headers = [
    *((f"ce_{name}", str(COMMANDS[0][name]).encode()) for name in ("specversion", "id", "source", "type")),
    ("ce_subject", b"a"),
    ("ce_expectedversion", b">=0"),
    ("content-type", b"application/json"),
]

keys = st.sampled_from([b"a", b"a", b"a", b"", None, b"b", b"\xff", b"k" * 1_000_000]) | st.binary(max_size=3)
headers = st.one_of(
    st.just(STRUCTURED_HEADERS),
    st.just(BINARY_HEADERS),
    st.lists(
        st.tuples(
            st.sampled_from([name for name, _ in BINARY_HEADERS]) | st.text(max_size=8),
            st.none() | damaged_bytes([value for _, value in BINARY_HEADERS if value]),
        ),
        max_size=12,
    ).map(lambda extra_headers: [*BINARY_HEADERS, *extra_headers]),
)
records = st.builds(
    lambda value, key, headers, timestamp: Record(7, timestamp, key, value, headers),
    st.one_of(
        damaged_documents(COMMANDS),
        damaged_bytes(VALID_VALUES),
        damaged_bytes([b'{"owner":"ann"}', b""]),
        st.none(),
    ),
    keys,
    headers,
    st.sampled_from([NOW, 0, -1, 2**62]),
)


def decide(*records: Record, state: VersionedState | None = None) -> Decisions:
    context = BatchContext(
        3,
        lambda _: state,
        lambda *_: None,
        lambda: NOW,
        topic="bank_account.commands",
        max_event_bytes=1_048_588,
    )
    return decide_batch(ACCOUNT, records, context)


def neighbour(offset: int, id: str) -> Record:
    value = json.dumps(document("bank_account.Open", "z", id, {"owner": id})).encode()
    return Record(offset, NOW, b"z", value, STRUCTURED_HEADERS)


def size(record: Record) -> int:
    headers_size = sum(len(name) + len(content or b"") for name, content in record.headers or [])
    return len(record.value or b"") + len(record.key or b"") + headers_size


def checked_outcome(record: Record) -> OutcomeEnvelope:
    """Return the record's only outcome, after checking it against the contract."""
    decisions = decide(record)
    ((value, key, timestamp),) = decisions.outcomes
    json.loads(value)
    outcome, verdict = read_outcome(value), read_outcome(value).data
    assert (outcome.id, verdict.partition, verdict.offset) == ("3/7", 3, 7)
    assert (key, timestamp) == (record.key, record.timestamp)
    assert {verdict.reason} - {UNSET} <= REASONS[verdict.status]
    assert (verdict.reason is UNSET) == (not REASONS[verdict.status])
    assert len(value) <= size(record) + ENVELOPE_OVERHEAD
    check_dead_letters(record, decisions, verdict.status)
    check_events(decisions, verdict.events)
    assert decide(record) == decisions
    return outcome


def check_dead_letters(record: Record, decisions: Decisions, status: str) -> None:
    """Assert that only a failed record becomes a dead letter, with the same bytes."""
    assert len(decisions.dead_letters) == (status == "failed")
    for letter in decisions.dead_letters:
        assert (letter.value, letter.key) == (record.value, record.key)
        assert letter.headers[:-5] == (record.headers or [])
        assert dict(letter.headers)["cqrs.reason"] in {reason.encode() for reason in FAILURES}


def check_events(decisions: Decisions, count: int) -> None:
    """Assert that the events can be read, and fold to the decided state."""
    assert len(decisions.events) == count
    folded: VersionedState | None = None
    for value, _, _ in decisions.events:
        json.loads(value)
        folded = fold_event(ACCOUNT, folded, read_event(value))
    if folded is not None:
        assert list(decisions.states.values()) == [replace(folded, partition=None)]


@pytest.mark.covers("bad-input")
@given(records)
def test_any_record_has_one_outcome(record: Record) -> None:
    """Each generated or damaged record has exactly one outcome."""
    checked_outcome(record)


@pytest.mark.covers("bad-input")
@given(records)
def test_neighbours_of_bad_records_are_unharmed(record: Record) -> None:
    if record.key == b"z":
        return
    with_record = decide(neighbour(6, "n1"), record, neighbour(8, "n2"))
    without_record = decide(neighbour(6, "n1"), neighbour(8, "n2"))
    assert [with_record.outcomes[0], with_record.outcomes[2]] == [*without_record.outcomes]
    assert with_record.states["z"] == without_record.states["z"]


@given(damaged_texts([b"7", b">=7", b"any", b"none", b"exists", b"0", b">=9007199254740992"]))
def test_expected_versions_have_five_forms(text: str) -> None:
    try:
        expected = parse_expected(text)
    except ValueError as error:
        assert len(str(error)) < 500
    else:
        assert text in ("any", "none", "exists", f"{expected.number}", f">={expected.number}")


def status_and_reason(value: bytes, key: bytes = b"a") -> tuple[str, Any]:
    verdict = checked_outcome(Record(7, NOW, key, value, STRUCTURED_HEADERS)).data
    return verdict.status, verdict.reason if isinstance(verdict.reason, str) else None


def with_data(data: bytes, **attributes: Any) -> bytes:
    command = json.dumps(document("bank_account.Open", "a", "c1", 0, **attributes)).encode()
    return command.replace(b'"data": 0', b'"data": %b' % data)


ACCEPTED = ("accepted", None)
INVALID_ENVELOPE, INVALID_PAYLOAD = ("failed", "INVALID_ENVELOPE"), ("failed", "INVALID_PAYLOAD")
DEPTH = 100_000


@pytest.mark.parametrize(
    ("data", "outcome"),
    [
        (b'{"owner":"ann"}', ACCEPTED),
        (b"[" * DEPTH + b"]" * DEPTH, INVALID_ENVELOPE),
        (b'{"owner":' * DEPTH + b"1" + b"}" * DEPTH, INVALID_ENVELOPE),
        (b'{"owner":%b%b}' % (b"[" * 240, b"]" * 240), INVALID_PAYLOAD),
        (b'{"owner":%b%b}' % (b"[" * 600, b"]" * 600), INVALID_ENVELOPE),
        (b'{"owner":%d}' % 10**400, INVALID_PAYLOAD),
        (b'{"owner":1e400}', INVALID_PAYLOAD),
        (b'{"owner":%b}' % (b"7" * 10_000), INVALID_PAYLOAD),
        (b'{"owner":NaN}', INVALID_ENVELOPE),
        (b'{"owner":-Infinity}', INVALID_ENVELOPE),
        (b'{"owner":"\\ud800"}', INVALID_ENVELOPE),
        (b'{"owner":"\\ud83d\\ude00"}', ACCEPTED),
        (b'{"owner":"\xff"}', INVALID_ENVELOPE),
        (b'{"owner":"\xed\xa0\x80"}', INVALID_ENVELOPE),
        (b'{"owner":"\x00"}', INVALID_ENVELOPE),
        (b'{"owner":"\\u0000"}', ACCEPTED),
        (b'{"owner":1,"owner":"ann"}', INVALID_PAYLOAD),
        (b'{"owner":"ann","owner":1}', INVALID_PAYLOAD),
        (b'{"owner":"ann","__class__":"os.system"}', INVALID_PAYLOAD),
        (b'{"owner":"ann"}, "data": {"owner":1}', INVALID_PAYLOAD),
        (b'{"owner":1}, "data": {"owner":"ann"}', ACCEPTED),
    ],
)
def test_json_edge_cases_have_known_outcomes(data: bytes, outcome: tuple[str, str | None]) -> None:
    assert status_and_reason(with_data(data)) == outcome


@pytest.mark.parametrize(
    "number", [b"1" + b"0" * 400, b"1e400", b"9" * 10_000, b"NaN", b"Infinity", b"-0", b"1.0", b"[0]"]
)
def test_bad_expected_versions_never_mean_any(number: bytes) -> None:
    status, reason = status_and_reason(
        with_data(b'{"owner":"ann"}', expectedversion=0).replace(b'version": 0', b'version": ' + number)
    )
    assert (status, reason) in [INVALID_ENVELOPE, ("failed", "INVALID_EXPECTED_VERSION")]


def test_the_last_duplicate_member_counts() -> None:
    for data in (b'{"owner":"bob","owner":"ann"}', b'{"owner":"bob","\\u006fwner":"ann"}'):
        state = decide(Record(7, NOW, b"a", with_data(data), STRUCTURED_HEADERS)).states["a"].state
        assert isinstance(state, bank_account.Account) and state.owner == "ann"
    duplicate_id = with_data(b'{"owner":"ann"}').replace(b'"id": "c1"', b'"id": "first", "id": "last"')
    assert checked_outcome(Record(7, NOW, b"a", duplicate_id, STRUCTURED_HEADERS)).causationid == "last"
    duplicate_version = with_data(b'{"owner":"ann"}', expectedversion="any")[:-1] + b',"expectedversion":"9"}'
    assert status_and_reason(duplicate_version) == ("rejected", "VERSION_CONFLICT")
    duplicate_subject = with_data(b'{"owner":"ann"}')[:-1] + b',"subject":"b"}'
    assert status_and_reason(duplicate_subject) == ("failed", "KEY_MISMATCH")
    assert status_and_reason(duplicate_subject, b"b") == ACCEPTED


@pytest.mark.parametrize("format_name", FOREIGN)
def test_records_of_other_formats_fail(format_name: str) -> None:
    avro: Headers = [("content-type", b"application/avro")]
    for headers in (STRUCTURED_HEADERS, avro, None):
        assert (
            checked_outcome(Record(7, NOW, b"a", FOREIGN[format_name], headers)).data.reason
            == "INVALID_ENVELOPE"
        )
    outcome = checked_outcome(Record(7, NOW, b"a", FOREIGN[format_name], BINARY_HEADERS))
    assert outcome.data.reason == "INVALID_PAYLOAD"


def test_ten_thousand_headers_change_nothing() -> None:
    many_headers: Headers = [(f"h{number}", b"x" * 20) for number in range(10_000)]
    assert (
        checked_outcome(
            Record(7, NOW, b"a", VALID_VALUES[0], [*many_headers, *STRUCTURED_HEADERS])
        ).data.status
        == "accepted"
    )
    assert (
        checked_outcome(
            Record(7, NOW, b"a", b'{"owner":"ann"}', [*many_headers, *BINARY_HEADERS])
        ).data.status
        == "accepted"
    )
    assert (
        checked_outcome(Record(7, NOW, b"a", VALID_VALUES[0], many_headers)).data.reason == "INVALID_ENVELOPE"
    )
    repeated_ids: Headers = [("ce_id", b"%d" % number) for number in range(10_000)]
    assert (
        checked_outcome(
            Record(7, NOW, b"a", b'{"owner":"ann"}', [*BINARY_HEADERS, *repeated_ids])
        ).causationid
        == "9999"
    )


def test_a_huge_key_keeps_its_bytes() -> None:
    key = b"k" * 1_000_000
    value = VALID_VALUES[0].replace(b'"a"', b'"%b"' % key)
    assert status_and_reason(value, key) == INVALID_ENVELOPE
    assert status_and_reason(VALID_VALUES[0], key) == ("failed", "KEY_MISMATCH")
