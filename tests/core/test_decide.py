"""The centre, held against a model that decides one command after the other, whatever the cuts."""

import json
from asyncio import CancelledError
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import Context, Decisions, OutputRecord
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import DedupEntry

WINDOW = 1000


class Add(cqrs.Command):
    n: int


class Crash(cqrs.Command):
    how: str

    def __post_init__(self) -> None:
        if self.how == "undone":
            raise LookupError(self.how)


class Mute(Exception):
    """An exception that cannot be put into words."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Added(cqrs.Event):
    n: int


class Tally(cqrs.State):
    total: int = 0


def decide(command: Add | Crash, tally: Tally) -> Iterator[Added]:
    match command:
        case Add(n) if n < 0:
            raise cqrs.Rejected("only up", code="NEGATIVE")
        case Add(n):
            yield from (Added(1) for _ in range(n))
        case Crash("raise"):
            raise RuntimeError("boom")
        case Crash("exit"):
            raise SystemExit(0)
        case Crash("cancel"):
            raise CancelledError
        case Crash("mute"):
            raise Mute
        case Crash("mumble"):
            raise cqrs.Rejected(Mute())  # type: ignore[arg-type]
        case Crash("number"):
            raise cqrs.Rejected(42)  # type: ignore[arg-type]
        case Crash("half"):
            yield Added(0)
        case Crash("fold"):
            yield Added(-1)
        case Crash("endless"):
            while True:
                yield Added(0)
        case Crash("large"):
            yield Added(int("9" * 4000))
        case Crash("bytes"):
            yield b"no event"  # type: ignore[misc]
        case Crash("nothing"):
            yield Added(None)  # type: ignore[arg-type]


def evolve(tally: Tally, event: Added) -> Tally:
    if event.n < 0:
        raise cqrs.Rejected("too late to refuse")
    if event.n == 0:
        return Tally(0.5)  # type: ignore[arg-type]
    return Tally(tally.total + event.n)


AGGREGATE = Aggregate.of("tally", cqrs.Decider(decide, evolve, Tally()))


def command(
    kind: str = "Add", data: Any = None, *, id: str = "1", subject: str = "a", **attributes: Any
) -> bytes:
    return json.dumps(
        {
            "specversion": "1.0",
            "id": id,
            "source": "/test",
            "type": f"tally.{kind}",
            "subject": subject,
            "data": {"n": 1} if data is None else data,
            **attributes,
        }
    ).encode()


def record(offset: int, value: bytes | None, key: bytes | None = b"a", timestamp: int = 5000) -> Record:
    return Record(offset, timestamp, key, value, list(HEADERS))


class Partition:
    """A partition in memory: feeds batches and keeps what they come to."""

    def __init__(self, **context: Any) -> None:
        self.states: dict[str, Folded] = {}
        self.remembered: dict[tuple[str, str], DedupEntry] = {}
        self.clock = 0
        self.context = context
        self.events: list[OutputRecord] = []
        self.outcomes: list[OutputRecord] = []
        self.dead_letters: list[Any] = []

    def feed(self, *records: Record) -> Decisions:
        context = Context(
            3,
            self.states.get,
            lambda subject, id: self.remembered.get((subject, id)),
            lambda: 6000,
            window=WINDOW,
            clock=self.clock,
            topic="tally.commands",
            **self.context,
        )
        done = decide_batch(AGGREGATE, records, context)
        self.states |= done.states
        self.remembered |= done.remembered
        self.clock = done.clock
        self.events += done.events
        self.outcomes += done.outcomes
        self.dead_letters += done.dead_letters
        return done

    def last(self) -> dict[str, Any]:
        return dict(json.loads(self.outcomes[-1][0]))

    def verdict(self, *records: Record) -> dict[str, Any]:
        self.feed(*records)
        return dict(self.last()["data"])


def reason(value: bytes | None, key: bytes | None = b"a", **context: Any) -> str:
    verdict = Partition(**context).verdict(record(0, value, key))
    assert verdict["status"] in ("failed", "rejected")
    return str(verdict["reason"])


class Model:
    """The reference: one command at a time, from the contract's words, over valid envelopes."""

    def __init__(self) -> None:
        self.version: dict[str, int] = {}
        self.seen: dict[tuple[str, str], tuple[int, str]] = {}
        self.clock = 0

    def decide(self, timestamp: int, c: dict[str, Any]) -> tuple[str, str | None, int]:
        self.clock = max(self.clock, timestamp)
        version, key = self.version.get(c["subject"], 0), (c["subject"], c["id"])
        content = json.dumps([c["type"], c["data"], c.get("expectedversion")])
        first = self.seen.get(key)
        if first and self.clock - first[0] <= WINDOW:
            return ("duplicate", None, version) if first[1] == content else ("rejected", "ID_REUSED", version)
        if c["type"] not in ("tally.Add", "tally.Crash"):
            return "failed", "UNKNOWN_TYPE", version
        expected = c.get("expectedversion", "any")
        holds = {"any": True, "none": version == 0, "exists": version > 0}.get(
            expected, expected == str(version)
        )
        status, why, n = "accepted", None, c["data"]["n"]
        if not holds:
            why = {"none": "ALREADY_EXISTS", "exists": "NOT_FOUND"}.get(expected, "VERSION_CONFLICT")
        elif n < 0:
            why = "BUSINESS_RULE"
        if why or n == 0:
            status, n = ("rejected" if why else "unchanged"), 0
        self.seen[key] = timestamp, content
        self.version[c["subject"]] = version + n
        return status, why, version + n


commands = st.fixed_dictionaries(
    {
        "id": st.sampled_from("123456"),
        "subject": st.sampled_from("ab"),
        "type": st.sampled_from(["tally.Add", "tally.Add", "tally.Add", "tally.Nope"]),
        "data": st.fixed_dictionaries({"n": st.integers(-1, 3)}),
    },
    optional={"expectedversion": st.sampled_from(["any", "none", "exists", "0", "1", "2", "3"])},
)
streams = st.lists(st.tuples(st.integers(0, 3000), commands), max_size=40)


def records_of(stream: list[tuple[int, dict[str, Any]]]) -> list[Record]:
    return [
        record(
            offset, json.dumps({"specversion": "1.0", "source": "/t", **c}).encode(), c["subject"].encode(), t
        )
        for offset, (t, c) in enumerate(stream)
    ]


@pytest.mark.pins("no-lost-update", "decided-once")
@given(streams)
def test_every_command_gets_the_outcome_of_the_reference_model(
    stream: list[tuple[int, dict[str, Any]]],
) -> None:
    model, partition = Model(), Partition()
    partition.feed(*records_of(stream))
    got = [json.loads(value)["data"] for value, _, _ in partition.outcomes]
    assert [(d["status"], d.get("reason"), d["version"]) for d in got] == [
        model.decide(t, c) for t, c in stream
    ]


@pytest.mark.pins("no-lost-update")
@given(streams, st.sets(st.integers(1, 39)))
def test_the_cuts_between_batches_make_no_difference(stream: list[Any], cuts: set[int]) -> None:
    whole, parts = Partition(), Partition()
    records = records_of(stream)
    whole.feed(*records)
    for start, end in pairwise([0, *sorted(cuts), 40]):
        parts.feed(*records[start:end])
    assert (whole.events, whole.outcomes, whole.dead_letters) == (
        parts.events,
        parts.outcomes,
        parts.dead_letters,
    )
    assert (whole.states, whole.remembered) == (parts.states, parts.remembered)


@given(streams)
def test_events_of_an_aggregate_are_numbered_without_gap(stream: list[Any]) -> None:
    partition = Partition()
    partition.feed(*records_of(stream))
    for subject in "ab":
        events = [e for e in map(json.loads, (v for v, _, _ in partition.events)) if e["subject"] == subject]
        assert [e["aggregateversion"] for e in events] == list(range(1, len(events) + 1))


@pytest.mark.pins("bad-input")
@pytest.mark.parametrize(
    ("value", "key", "expected"),
    [
        (command(), None, "KEY_MISSING"),
        (command(), b"", "KEY_MISSING"),
        (None, b"a", "INVALID_ENVELOPE"),
        (b"\xff\xfe", b"a", "INVALID_ENVELOPE"),
        (b"[" * 100_000, b"a", "INVALID_ENVELOPE"),
        (b'{"data":NaN}', b"a", "INVALID_ENVELOPE"),
        (command(id=""), b"a", "INVALID_ENVELOPE"),
        (command(id="x" * 1025), b"a", "INVALID_ENVELOPE"),
        (command(id="ä" * 600), b"a", "INVALID_ENVELOPE"),
        (command(data_base64="AA=="), b"a", "INVALID_ENVELOPE"),
        (command(expirytime="tomorrow"), b"a", "INVALID_ENVELOPE"),
        (command(), b"b", "KEY_MISMATCH"),
        (command(), b"\xff", "KEY_MISMATCH"),
        (command("Nope"), b"a", "UNKNOWN_TYPE"),
        (command(data={"n": 1, "m": 2}), b"a", "INVALID_PAYLOAD"),
        (command(data={"n": "1"}), b"a", "INVALID_PAYLOAD"),
        (command(data={}), b"a", "INVALID_PAYLOAD"),
        (command(expectedversion="07"), b"a", "INVALID_EXPECTED_VERSION"),
        (command(expectedversion="+7"), b"a", "INVALID_EXPECTED_VERSION"),
        (command(expectedversion=""), b"a", "INVALID_EXPECTED_VERSION"),
        (command(expectedversion=-1), b"a", "INVALID_EXPECTED_VERSION"),
        (command(expectedversion=7.0), b"a", "INVALID_EXPECTED_VERSION"),
        (command(expectedversion=True), b"a", "INVALID_EXPECTED_VERSION"),
        (command(expectedversion=2**63), b"a", "INVALID_EXPECTED_VERSION"),
        (command(expectedversion=[1]), b"a", "INVALID_EXPECTED_VERSION"),
        (command("Crash", {"how": "raise"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"how": "exit"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"how": "cancel"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"how": "mute"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"how": "fold"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"how": "half"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"how": "mumble"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"how": "number"}), b"a", "BUSINESS_RULE"),
        (command("Crash", {"how": "undone"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"how": "bytes"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"how": "nothing"}), b"a", "HANDLER_ERROR"),
        (command("Crash", {"how": "endless"}), b"a", "TOO_LARGE"),
        (command(data={"n": 10_001}), b"a", "TOO_LARGE"),
        (command(expirytime="1970-01-01T00:00:05Z"), b"a", "EXPIRED"),
        (command(expectedversion="exists"), b"a", "NOT_FOUND"),
        (command(expectedversion=1), b"a", "VERSION_CONFLICT"),
        (command(data={"n": -1}), b"a", "BUSINESS_RULE"),
    ],
)
def test_the_first_thing_wrong_is_the_reason(value: bytes | None, key: bytes | None, expected: str) -> None:
    assert reason(value, key) == expected


def test_an_event_larger_than_the_broker_takes_is_refused_whole() -> None:
    assert reason(command("Crash", {"how": "large"}), max_event_bytes=3000) == "TOO_LARGE"


def test_a_key_that_hashes_elsewhere_is_on_the_wrong_partition() -> None:
    assert reason(command(), partition_of=lambda key: 1) == "WRONG_PARTITION"


def test_a_null_expected_version_is_none_at_all() -> None:
    verdict = Partition().verdict(record(0, command(expectedversion=None)))
    assert verdict["status"] == "accepted" and "expected" not in verdict


def test_a_failed_command_is_not_remembered_and_its_bytes_are_kept() -> None:
    partition = Partition()
    verdict = partition.verdict(record(0, command("Nope")))
    assert verdict["retryable"] is False and "fingerprint" in verdict
    assert partition.last()["type"] == "cqrs.failed"
    assert partition.verdict(record(1, command()))["status"] == "accepted"
    (letter,) = partition.dead_letters
    assert letter.value == command("Nope")
    assert dict(letter.headers)["cqrs.reason"] == b"UNKNOWN_TYPE"
    assert dict(letter.headers)["cqrs.offset"] == b"0"


def test_an_unreadable_record_has_an_outcome_without_subject() -> None:
    partition = Partition()
    verdict = partition.verdict(record(7, b"?", b"\xff"))
    assert not {"subject", "causationid", "correlationid"} & partition.last().keys()
    assert partition.outcomes[0][1] == b"\xff" and "fingerprint" not in verdict
    assert verdict["partition"] == 3 and verdict["offset"] == 7 and verdict["version"] == 0


def test_a_duplicate_points_to_the_first_decision() -> None:
    partition = Partition()
    partition.feed(record(0, command(data={"n": 2})), record(1, command(id="2")))
    verdict = partition.verdict(record(2, command(data={"n": 2})))
    assert verdict["status"] == "duplicate" and verdict["version"] == 3
    assert verdict["original"] == {"offset": 0, "status": "accepted", "version": 2, "events": 2}


def test_an_id_is_forgotten_once_the_clock_is_beyond_its_window() -> None:
    partition = Partition()
    partition.feed(record(0, command(), timestamp=5000))
    assert partition.verdict(record(1, command(), timestamp=5000 + WINDOW))["status"] == "duplicate"
    assert partition.verdict(record(2, command(), timestamp=5001 + WINDOW))["status"] == "accepted"


def test_a_clock_that_goes_back_does_not_bring_an_id_back() -> None:
    partition = Partition()
    partition.feed(record(0, command(), timestamp=5000), record(1, command(id="2"), timestamp=7000))
    assert partition.verdict(record(2, command(), timestamp=5000))["status"] == "accepted"


def test_an_offset_given_up_by_an_operator_fails_without_its_bytes() -> None:
    partition = Partition(refused=frozenset({4}))
    verdict = partition.verdict(record(4, command()), record(5, command()))
    assert verdict["status"] == "accepted"
    assert json.loads(partition.outcomes[0][0])["data"]["reason"] == "TOO_LARGE"
    assert partition.dead_letters[0].value is None


def test_the_contracts_event_and_outcome_come_out_as_documented() -> None:
    partition = Partition()
    partition.feed(record(18274, command(correlationid="order-9"), timestamp=1763686923456))
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
    assert partition.last()["id"] == "3/18274"
    assert partition.last()["type"] == "tally.Add.accepted"
