"""Any record gets exactly one outcome, its bytes are kept where promised, and its neighbours are not affected."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.core.messages.record import UNREADABLE_HEADERS
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import producer_partition
from tests.fuzz.damage import FOREIGN, pickle_that_creates
from tests.support import ROOT
from tests.support.commands import STRUCTURED_HEADERS, CommandRecord, command, document
from tests.support.harness import TopicHarness
from tests.support.owners import running_owners
from tests.support.raw_requests import raw_client
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def behave_command(id: str = "b", **attributes: Any) -> CommandRecord:
    return command("awkward.Behave", "a", id, **attributes)


def document_bytes(**members: Any) -> bytes:
    return json.dumps(document("awkward.Behave", "a", "raw") | members).encode()


def binary_headers(**attributes: bytes | None) -> list[tuple[str, bytes | None]]:
    defaults: dict[str, bytes | None] = {
        "specversion": b"1.0",
        "id": b"bin",
        "source": b"/t",
        "type": b"awkward.Behave",
        "subject": b"a",
    }
    return [(f"ce_{name}", value) for name, value in (defaults | attributes).items()]


PARTITION = producer_partition("murmur2", b"a", 2)
FAILED = {
    "undecodable bytes": (CommandRecord(b"\xff\xfe\x00", b"a"), "INVALID_ENVELOPE"),
    "half a document": (CommandRecord(document_bytes()[:-9], b"a"), "INVALID_ENVELOPE"),
    "bytes that are no UTF-8 inside": (
        CommandRecord(document_bytes().replace(b"raw", b"\xc3"), b"a"),
        "INVALID_ENVELOPE",
    ),
    "nested without end": (CommandRecord(b'{"data":' * 100_000, b"a"), "INVALID_ENVELOPE"),
    "no key": (CommandRecord(document_bytes(), None, partition=PARTITION), "KEY_MISSING"),
    "empty key": (CommandRecord(document_bytes(), b"", partition=PARTITION), "KEY_MISSING"),
    "key unlike subject": (CommandRecord(document_bytes(subject="b"), b"a"), "KEY_MISMATCH"),
    "key that is no UTF-8": (
        CommandRecord(document_bytes(), b"\xff\xfe", partition=PARTITION),
        "KEY_MISMATCH",
    ),
    "wrong partition": (CommandRecord(document_bytes(), b"a", partition=1 - PARTITION), "WRONG_PARTITION"),
    "no headers": (CommandRecord(document_bytes(), b"a", None), "INVALID_ENVELOPE"),
    "other headers only": (
        CommandRecord(document_bytes(), b"a", [("trace", b"1"), ("trace", b"2")]),
        "INVALID_ENVELOPE",
    ),
    "content type repeated, the last wrong": (
        CommandRecord(document_bytes(), b"a", [*STRUCTURED_HEADERS, ("content-type", b"text/plain")]),
        "INVALID_ENVELOPE",
    ),
    "a missing attribute in binary mode": (
        CommandRecord(b"{}", b"a", binary_headers(id=None)),
        "INVALID_ENVELOPE",
    ),
    "null value": (CommandRecord(None, b"a"), "INVALID_ENVELOPE"),
    "null value in binary mode": (CommandRecord(None, b"a", binary_headers()), "INVALID_ENVELOPE"),
    "a batch of events": (
        CommandRecord(
            b"[%b]" % document_bytes(), b"a", [("content-type", b"application/cloudevents-batch+json")]
        ),
        "INVALID_ENVELOPE",
    ),
    "base64 data": (CommandRecord(document_bytes(data_base64="e30="), b"a"), "INVALID_ENVELOPE"),
    "unknown type": (command("awkward.Vanish", "a", "u"), "UNKNOWN_TYPE"),
    "another aggregate's type": (command("counter.Increment", "a", "u"), "UNKNOWN_TYPE"),
    "unknown field": (command("awkward.Behave", "a", "f", {"politely": True}), "INVALID_PAYLOAD"),
    "missing field": (command("awkward.Flood", "a", "f"), "INVALID_PAYLOAD"),
    "wrong field type": (command("awkward.Flood", "a", "f", {"count": "3"}), "INVALID_PAYLOAD"),
    "data that is no object": (command("awkward.Behave", "a", "f", [1]), "INVALID_PAYLOAD"),
    "NaN": (CommandRecord(document_bytes().replace(b"{}", b'{"count":NaN}'), b"a"), "INVALID_ENVELOPE"),
    "NaN in binary mode": (
        CommandRecord(b'{"count":NaN}', b"a", binary_headers(type=b"awkward.Flood")),
        "INVALID_PAYLOAD",
    ),
    "expected 07": (behave_command(expectedversion="07"), "INVALID_EXPECTED_VERSION"),
    "expected -1": (behave_command(expectedversion=-1), "INVALID_EXPECTED_VERSION"),
    "expected 2^63": (behave_command(expectedversion=2**63), "INVALID_EXPECTED_VERSION"),
    "expected 7.0": (behave_command(expectedversion=7.0), "INVALID_EXPECTED_VERSION"),
    "expected true": (behave_command(expectedversion=True), "INVALID_EXPECTED_VERSION"),
    "a handler that raises": (command("awkward.Raise", "a", "h"), "HANDLER_ERROR"),
    "a handler that yields no event": (command("awkward.Lie", "a", "h"), "HANDLER_ERROR"),
    "an event that cannot be folded": (command("awkward.Choke", "a", "h"), "HANDLER_ERROR"),
    "an event that JSON cannot say": (command("awkward.Average", "a", "h"), "HANDLER_ERROR"),
    "10,001 events": (command("awkward.Flood", "a", "l", {"count": 10_001}), "TOO_LARGE"),
    "an event too large for the broker": (
        command("awkward.Fatten", "a", "l", {"size": 1_100_000}),
        "TOO_LARGE",
    ),
    "a command of 1 MB with an unknown field": (
        command("awkward.Behave", "a", "m", {"pad": "y" * 1_000_000}),
        "INVALID_PAYLOAD",
    ),
    "1 MB that is nothing": (CommandRecord(b"?" * 1_040_000, b"a"), "INVALID_ENVELOPE"),
    "a number of 401 digits": (command("awkward.Flood", "a", "n", {"count": 10**400}), "TOO_LARGE"),
    "a number of 10,000 digits": (
        CommandRecord(document_bytes().replace(b"{}", b'{"count":%b}' % (b"7" * 10_000)), b"a"),
        "INVALID_PAYLOAD",
    ),
    "half a surrogate pair": (
        CommandRecord(document_bytes().replace(b'"raw"', b'"\\ud800"'), b"a"),
        "INVALID_ENVELOPE",
    ),
    "a member twice, the last wrong": (
        CommandRecord(document_bytes()[:-1] + b',"subject":"b"}', b"a"),
        "KEY_MISMATCH",
    ),
    "10,000 headers and no CloudEvent": (
        CommandRecord(document_bytes(), b"a", [(f"h{number}", b"x") for number in range(10_000)]),
        "INVALID_ENVELOPE",
    ),
    **{
        f"a record in {case}": (
            CommandRecord(value, b"a", binary_headers(type=b"awkward.Flood")),
            "INVALID_PAYLOAD",
        )
        for case, value in FOREIGN.items()
    },
    "a key of 1 MB": (CommandRecord(b"", b"k" * 1_000_000, partition=PARTITION), "INVALID_ENVELOPE"),
}
ACCEPTED = {
    "binary mode": (CommandRecord(b"", b"a", binary_headers()), 1),
    "both modes mixed, the content type counts": (
        CommandRecord(document_bytes(), b"a", [*binary_headers(id=b"x"), *STRUCTURED_HEADERS]),
        1,
    ),
    "repeated attributes, the last counts": (
        CommandRecord(b"", b"a", [("ce_id", b"first"), *binary_headers(id=b"last")]),
        1,
    ),
    "a member twice, the last right": (CommandRecord(document_bytes()[:-1] + b',"id":"twice"}', b"a"), 1),
    "10,000 headers": (
        CommandRecord(
            document_bytes(id="many"), b"a", [*((f"h{n}", b"x") for n in range(10_000)), *STRUCTURED_HEADERS]
        ),
        1,
    ),
    "10,000 events": (command("awkward.Flood", "a", "flood", {"count": 10_000}), 10_000),
    "an event of 1 MB": (command("awkward.Fatten", "a", "fat", {"size": 1_000_000}), 1),
    "an attribute nobody knows": (behave_command("colourful", colour="blue"), 1),
    "expected null": (behave_command("null", expectedversion=None), 1),
}


class Service(TopicHarness):
    """A run that serves all tests of this file."""

    last_number = 0

    def outcome(self, record: CommandRecord, partition: int) -> dict[str, Any]:
        """Send a record between two neighbours, and return its outcome. Both neighbours must be decided as usual."""
        self.last_number += 1
        neighbours = [behave_command(f"n{self.last_number}.{n}") for n in range(2)]
        old_ends = self.stable_end("outcomes", partition), self.stable_end("dead-letters", partition)
        neighbour_records = [r._replace(partition=partition, key=b"a") for r in neighbours]
        self.send(neighbour_records[0], record._replace(partition=partition), neighbour_records[1])
        eventually(lambda: len(self.records_since("outcomes", partition, old_ends[0])) == 3)
        first, middle, third = self.records_since("outcomes", partition, old_ends[0])
        expected = "accepted" if partition == PARTITION else "failed"
        assert first["data"]["status"] == third["data"]["status"] == expected
        if partition == PARTITION:
            assert third["data"]["version"] == first["data"]["version"] + middle["data"]["events"] + 1
        return middle

    def records_since(self, kind: Any, partition: int, offset: int) -> list[dict[str, Any]]:
        return [json.loads(r.value or b"") for r in self.records(kind, partition) if r.offset >= offset]


@pytest.fixture(scope="module")
def service(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("service")
    service = Service(
        connection, f"{folder.name}.", folder, "awkward", 2, package="awkward", root=ROOT / "tests"
    )
    with running_owners(service.plan(once=False)) as owner:
        yield service
        assert not owner.has_ended()


@pytest.mark.covers("bad-input")
@pytest.mark.parametrize("case", FAILED)
def test_undecidable_records_fail_and_are_kept(service: Service, case: str) -> None:
    record, reason = FAILED[case]
    partition = PARTITION if record.partition is None else record.partition
    outcome = service.outcome(record, partition)
    assert (outcome["data"]["status"], outcome["data"].get("reason")) == ("failed", reason)
    assert outcome["data"]["retryable"] is False and outcome["data"]["events"] == 0
    offset = str(outcome["data"]["offset"]).encode()
    (dead_letter,) = (
        r
        for r in service.records("dead-letters", partition)
        if dict(r.headers or [])["cqrs.offset"] == offset
    )
    assert (dead_letter.value, dead_letter.key or None) == (record.value, record.key or None)
    assert (dead_letter.headers or [])[:-5] == (record.headers or [])
    assert dict(dead_letter.headers or [])["cqrs.reason"] == reason.encode()


@pytest.mark.parametrize("case", ACCEPTED)
def test_unusual_commands_are_decided(service: Service, case: str) -> None:
    record, events = ACCEPTED[case]
    outcome = service.outcome(record, PARTITION)
    assert (outcome["data"]["status"], outcome["data"]["events"]) == ("accepted", events)


@pytest.mark.covers("bad-input")
def test_an_undecodable_header_name_fails_alone(service: Service) -> None:
    old_ends = service.stable_end("outcomes", PARTITION)
    neighbours = [behave_command(f"header{n}")._replace(partition=PARTITION) for n in range(2)]
    service.send(neighbours[0])
    with raw_client(service.connection) as client:
        assert (
            client.append(service.topics.commands, PARTITION, b"a", document_bytes(id="header"), b"\xff\xfe")
            == 0
        )
    service.send(neighbours[1])
    eventually(lambda: len(service.records_since("outcomes", PARTITION, old_ends)) == 3)
    reasons = [
        outcome["data"].get("reason") for outcome in service.records_since("outcomes", PARTITION, old_ends)
    ]
    assert reasons == [None, "INVALID_ENVELOPE", None]
    dead_letter = service.records("dead-letters", PARTITION)[-1]
    assert dead_letter.value == document_bytes(id="header")
    assert (dead_letter.headers or [])[:-5] == UNREADABLE_HEADERS, (
        "no client can read them, or write them again"
    )


def test_a_pickle_is_only_bytes(service: Service, tmp_path: Path) -> None:
    pickle_bytes = base64.b64decode(pickle_that_creates(tmp_path / "went-off"))
    for record in (
        CommandRecord(pickle_bytes, b"a"),
        CommandRecord(pickle_bytes, b"a", binary_headers()),
        CommandRecord(document_bytes(), pickle_bytes),
        CommandRecord(pickle_bytes, pickle_bytes),
    ):
        service.outcome(record, PARTITION)
    assert not (tmp_path / "went-off").exists()


@pytest.mark.covers("bad-input")
def test_records_are_as_decided_at_once(service: Service) -> None:
    service.check_log()
