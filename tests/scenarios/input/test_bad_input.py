"""Any record gets exactly one outcome, its bytes are kept where promised, and its neighbours are not affected."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.core.messages.record import UNREADABLE_HEADERS
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import target_partition
from tests.fuzz.damage import FOREIGN, pickle_that_creates
from tests.support import ROOT
from tests.support.commands import STRUCTURED_HEADERS, CommandRecord, command, document
from tests.support.harness import TopicHarness
from tests.support.owners import running_owners
from tests.support.raw_requests import raw_client as admin
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def behave(id: str = "b", **attributes: Any) -> CommandRecord:
    return command("awkward.Behave", "a", id, **attributes)


def raw(**members: Any) -> bytes:
    return json.dumps(document("awkward.Behave", "a", "raw") | members).encode()


def binary(**attributes: bytes | None) -> list[tuple[str, bytes | None]]:
    usual: dict[str, bytes | None] = {
        "specversion": b"1.0",
        "id": b"bin",
        "source": b"/t",
        "type": b"awkward.Behave",
        "subject": b"a",
    }
    return [(f"ce_{name}", value) for name, value in (usual | attributes).items()]


HOME = target_partition("murmur2", b"a", 2)
FAILED = {
    "undecodable bytes": (CommandRecord(b"\xff\xfe\x00", b"a"), "INVALID_ENVELOPE"),
    "half a document": (CommandRecord(raw()[:-9], b"a"), "INVALID_ENVELOPE"),
    "bytes that are no UTF-8 inside": (
        CommandRecord(raw().replace(b"raw", b"\xc3"), b"a"),
        "INVALID_ENVELOPE",
    ),
    "nested without end": (CommandRecord(b'{"data":' * 100_000, b"a"), "INVALID_ENVELOPE"),
    "no key": (CommandRecord(raw(), None, partition=HOME), "KEY_MISSING"),
    "empty key": (CommandRecord(raw(), b"", partition=HOME), "KEY_MISSING"),
    "key unlike subject": (CommandRecord(raw(subject="b"), b"a"), "KEY_MISMATCH"),
    "key that is no UTF-8": (CommandRecord(raw(), b"\xff\xfe", partition=HOME), "KEY_MISMATCH"),
    "wrong partition": (CommandRecord(raw(), b"a", partition=1 - HOME), "WRONG_PARTITION"),
    "no headers": (CommandRecord(raw(), b"a", None), "INVALID_ENVELOPE"),
    "other headers only": (
        CommandRecord(raw(), b"a", [("trace", b"1"), ("trace", b"2")]),
        "INVALID_ENVELOPE",
    ),
    "content type repeated, the last wrong": (
        CommandRecord(raw(), b"a", [*STRUCTURED_HEADERS, ("content-type", b"text/plain")]),
        "INVALID_ENVELOPE",
    ),
    "a missing attribute in binary mode": (CommandRecord(b"{}", b"a", binary(id=None)), "INVALID_ENVELOPE"),
    "null value": (CommandRecord(None, b"a"), "INVALID_ENVELOPE"),
    "null value in binary mode": (CommandRecord(None, b"a", binary()), "INVALID_ENVELOPE"),
    "a batch of events": (
        CommandRecord(b"[%b]" % raw(), b"a", [("content-type", b"application/cloudevents-batch+json")]),
        "INVALID_ENVELOPE",
    ),
    "base64 data": (CommandRecord(raw(data_base64="e30="), b"a"), "INVALID_ENVELOPE"),
    "unknown type": (command("awkward.Vanish", "a", "u"), "UNKNOWN_TYPE"),
    "another aggregate's type": (command("counter.Increment", "a", "u"), "UNKNOWN_TYPE"),
    "unknown field": (command("awkward.Behave", "a", "f", {"politely": True}), "INVALID_PAYLOAD"),
    "missing field": (command("awkward.Flood", "a", "f"), "INVALID_PAYLOAD"),
    "wrong field type": (command("awkward.Flood", "a", "f", {"count": "3"}), "INVALID_PAYLOAD"),
    "data that is no object": (command("awkward.Behave", "a", "f", [1]), "INVALID_PAYLOAD"),
    "NaN": (CommandRecord(raw().replace(b"{}", b'{"count":NaN}'), b"a"), "INVALID_ENVELOPE"),
    "NaN in binary mode": (
        CommandRecord(b'{"count":NaN}', b"a", binary(type=b"awkward.Flood")),
        "INVALID_PAYLOAD",
    ),
    "expected 07": (behave(expectedversion="07"), "INVALID_EXPECTED_VERSION"),
    "expected -1": (behave(expectedversion=-1), "INVALID_EXPECTED_VERSION"),
    "expected 2^63": (behave(expectedversion=2**63), "INVALID_EXPECTED_VERSION"),
    "expected 7.0": (behave(expectedversion=7.0), "INVALID_EXPECTED_VERSION"),
    "expected true": (behave(expectedversion=True), "INVALID_EXPECTED_VERSION"),
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
        CommandRecord(raw().replace(b"{}", b'{"count":%b}' % (b"7" * 10_000)), b"a"),
        "INVALID_PAYLOAD",
    ),
    "half a surrogate pair": (CommandRecord(raw().replace(b'"raw"', b'"\\ud800"'), b"a"), "INVALID_ENVELOPE"),
    "a member twice, the last wrong": (CommandRecord(raw()[:-1] + b',"subject":"b"}', b"a"), "KEY_MISMATCH"),
    "10,000 headers and no CloudEvent": (
        CommandRecord(raw(), b"a", [(f"h{number}", b"x") for number in range(10_000)]),
        "INVALID_ENVELOPE",
    ),
    **{
        f"a record in {what}": (CommandRecord(value, b"a", binary(type=b"awkward.Flood")), "INVALID_PAYLOAD")
        for what, value in FOREIGN.items()
    },
    "a key of 1 MB": (CommandRecord(b"", b"k" * 1_000_000, partition=HOME), "INVALID_ENVELOPE"),
}
ACCEPTED = {
    "binary mode": (CommandRecord(b"", b"a", binary()), 1),
    "both modes mixed, the content type counts": (
        CommandRecord(raw(), b"a", [*binary(id=b"x"), *STRUCTURED_HEADERS]),
        1,
    ),
    "repeated attributes, the last counts": (
        CommandRecord(b"", b"a", [("ce_id", b"first"), *binary(id=b"last")]),
        1,
    ),
    "a member twice, the last right": (CommandRecord(raw()[:-1] + b',"id":"twice"}', b"a"), 1),
    "10,000 headers": (
        CommandRecord(raw(id="many"), b"a", [*((f"h{n}", b"x") for n in range(10_000)), *STRUCTURED_HEADERS]),
        1,
    ),
    "10,000 events": (command("awkward.Flood", "a", "flood", {"count": 10_000}), 10_000),
    "an event of 1 MB": (command("awkward.Fatten", "a", "fat", {"size": 1_000_000}), 1),
    "an attribute nobody knows": (behave("colourful", colour="blue"), 1),
    "expected null": (behave("null", expectedversion=None), 1),
}


class Service(TopicHarness):
    """A run that serves all tests of this file."""

    last = 0

    def outcome(self, sent: CommandRecord, partition: int) -> dict[str, Any]:
        """Send a record between two neighbours, and return its outcome. Both neighbours must be decided as usual."""
        self.last += 1
        neighbours = [behave(f"n{self.last}.{n}") for n in range(2)]
        before = self.stable_end("outcomes", partition), self.stable_end("dead-letters", partition)
        elsewhere = [r._replace(partition=partition, key=b"a") for r in neighbours]
        self.send(elsewhere[0], sent._replace(partition=partition), elsewhere[1])
        eventually(lambda: len(self.since("outcomes", partition, before[0])) == 3)
        first, middle, third = self.since("outcomes", partition, before[0])
        expected = "accepted" if partition == HOME else "failed"
        assert first["data"]["status"] == third["data"]["status"] == expected
        if partition == HOME:
            assert third["data"]["version"] == first["data"]["version"] + middle["data"]["events"] + 1
        return middle

    def since(self, kind: Any, partition: int, offset: int) -> list[dict[str, Any]]:
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
@pytest.mark.parametrize("what", FAILED)
def test_undecidable_records_fail_and_are_kept(service: Service, what: str) -> None:
    sent, reason = FAILED[what]
    partition = HOME if sent.partition is None else sent.partition
    outcome = service.outcome(sent, partition)
    assert (outcome["data"]["status"], outcome["data"].get("reason")) == ("failed", reason)
    assert outcome["data"]["retryable"] is False and outcome["data"]["events"] == 0
    offset = str(outcome["data"]["offset"]).encode()
    (letter,) = (
        r
        for r in service.records("dead-letters", partition)
        if dict(r.headers or [])["cqrs.offset"] == offset
    )
    assert (letter.value, letter.key or None) == (sent.value, sent.key or None)
    assert (letter.headers or [])[:-5] == (sent.headers or [])
    assert dict(letter.headers or [])["cqrs.reason"] == reason.encode()


@pytest.mark.parametrize("what", ACCEPTED)
def test_unusual_commands_are_decided(service: Service, what: str) -> None:
    sent, events = ACCEPTED[what]
    outcome = service.outcome(sent, HOME)
    assert (outcome["data"]["status"], outcome["data"]["events"]) == ("accepted", events)


@pytest.mark.covers("bad-input")
def test_an_undecodable_header_name_fails_alone(service: Service) -> None:
    before = service.stable_end("outcomes", HOME)
    neighbours = [behave(f"header{n}")._replace(partition=HOME) for n in range(2)]
    service.send(neighbours[0])
    with admin(service.connection) as requests:
        assert requests.append(service.topics.commands, HOME, b"a", raw(id="header"), b"\xff\xfe") == 0
    service.send(neighbours[1])
    eventually(lambda: len(service.since("outcomes", HOME, before)) == 3)
    reasons = [outcome["data"].get("reason") for outcome in service.since("outcomes", HOME, before)]
    assert reasons == [None, "INVALID_ENVELOPE", None]
    letter = service.records("dead-letters", HOME)[-1]
    assert letter.value == raw(id="header")
    assert (letter.headers or [])[:-5] == UNREADABLE_HEADERS, "no client can read them, or write them again"


def test_a_pickle_is_only_bytes(service: Service, tmp_path: Path) -> None:
    loaded = base64.b64decode(pickle_that_creates(tmp_path / "went-off"))
    for sent in (
        CommandRecord(loaded, b"a"),
        CommandRecord(loaded, b"a", binary()),
        CommandRecord(raw(), loaded),
        CommandRecord(loaded, loaded),
    ):
        service.outcome(sent, HOME)
    assert not (tmp_path / "went-off").exists()


@pytest.mark.covers("bad-input")
def test_everything_is_as_decided_at_once(service: Service) -> None:
    service.check_log()
