from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cqrs_cli as cqrs
from aggregates.order import Placed, Ship
from aggregates.payment import Request
from cqrs_cli import registry
from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.payload_reference import data_of_document, find_reference
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.process import Send
from cqrs_cli.core.react import InvalidReaction
from cqrs_cli.core.recorded import Recorded
from cqrs_cli.errors import UsageError
from cqrs_cli.following.processes.compose import CommandComposer
from cqrs_cli.following.processes.composer import ComposedRecord
from cqrs_cli.following.processes.plan import OutputTopic
from cqrs_cli.following.processes.sent_commands import command_digest
from cqrs_cli.payloads.address import PayloadStoreAddress
from processes import checkout
from tests.core.personal.customer import CUSTOMER, Order, Registered
from tests.support import ROOT

COMMANDS = {
    "order.commands": OutputTopic("order.commands", 4),
    "payment.commands": OutputTopic("payment.commands", 4),
}
COMPOSER = CommandComposer(
    "checkout", checkout.process, COMMANDS, "murmur2", lambda name: registry.load(name, "aggregates", ROOT)
)
PERSONAL = CommandComposer(
    "forgetting",
    checkout.process,
    {"customer.commands": OutputTopic("customer.commands", 4)},
    "murmur2",
    {"customer": CUSTOMER}.__getitem__,
)
TIME = datetime(2026, 5, 1, tzinfo=UTC)


def recorded(id: str = "0/7/0", time: datetime = TIME, topic: str = "order.events") -> Recorded[Placed]:
    return Recorded(Placed("ann"), "o-1", 1, time, id, "c-1", "corr-1", 0, 8, topic)


def document(command: ComposedRecord) -> dict[str, Any]:
    return dict(msgspec.json.decode(command.value))


def test_commands_have_all_attributes() -> None:
    send = Send("payment", "o-1", Request("ann"), expect=3, expires=timedelta(hours=1))
    (command,) = COMPOSER.compose(recorded(), (send,))
    assert document(command) == {
        "specversion": "1.0",
        "id": "checkout/order.events/0/7/0@1777593600000/0",
        "source": "/cqrs/process/checkout",
        "type": "payment.Request",
        "subject": "o-1",
        "expectedversion": "3",
        "correlationid": "corr-1",
        "causationid": "0/7/0",
        "expirytime": "2026-05-01T01:00:00.000Z",
        "data": {"customer": "ann"},
    }
    assert (command.topic, command.key) == ("payment.commands", b"o-1")
    read_command(Record(0, 0, command.key, command.value, list(HEADERS)))


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (timedelta(days=3), "2026-05-04T00:00:00.000Z"),
        (TIME + timedelta(hours=1), "2026-05-01T01:00:00.000Z"),
        (timedelta.max, "9999-12-31T23:59:59.999Z"),
        (timedelta(days=-40_000), "1970-01-01T00:00:00.000Z"),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC), "9999-12-31T23:59:59.999Z"),
    ],
)
def test_durations_count_from_the_event(moment: datetime | timedelta, text: str) -> None:
    """The record does not depend on the time of composing."""
    (command,) = COMPOSER.compose(recorded(), (Send("order", "o-1", Ship(), not_before=moment),))
    assert document(command)["notbefore"] == text
    read_command(Record(0, 0, command.key, command.value, list(HEADERS)))


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("trace", "propagated"),
    [
        ((TRACE, "vendor=1"), (TRACE, "vendor=1")),
        ((TRACE, None), (TRACE, None)),
        ((TRACE, "no state"), (TRACE, None)),
        (("whatever a client has sent", "vendor=1"), (None, None)),
        ((None, None), (None, None)),
    ],
)
def test_trace_context_is_propagated(
    trace: tuple[str | None, str | None], propagated: tuple[str | None, str | None]
) -> None:
    """Invalid traces are dropped, because the owner would not accept a command with an invalid trace."""
    event = msgspec.structs.replace(recorded(), traceparent=trace[0], tracestate=trace[1])
    (command,) = COMPOSER.compose(event, (Send("order", "o-1", Ship()),))
    attributes = document(command)
    assert (attributes.get("traceparent"), attributes.get("tracestate")) == propagated


events = st.builds(
    recorded,
    st.from_regex(r"[0-9]{1,3}/[0-9]{1,9}/[0-9]{1,2}", fullmatch=True),
    st.datetimes(datetime(2000, 1, 1), timezones=st.just(UTC)).map(
        lambda moment: moment.replace(microsecond=0)
    ),
    st.sampled_from(["order.events", "payment.events"]),
)


@pytest.mark.covers("reacted-once")
@given(events, events, st.integers(1, 4))
def test_ids_derive_from_the_event(event: Recorded[Placed], other: Recorded[Placed], count: int) -> None:
    """Ids do not depend on time, and differ for other events, also for the same offset in a recreated topic."""

    def command_ids(event: Recorded[Placed]) -> list[str]:
        commands = COMPOSER.compose(event, (Send("order", "o", Ship()),) * count)
        return [document(command)["id"] for command in commands]

    assert command_ids(event) == command_ids(event)
    assert len(set(command_ids(event))) == count
    is_same_event = (event.id, event.time, event.topic) == (other.id, other.time, other.topic)
    assert bool(set(command_ids(event)) & set(command_ids(other))) == is_same_event


@pytest.mark.parametrize(
    ("send", "problem"),
    [
        (Send("unknown", "o-1", Ship()), "no aggregate 'unknown'"),
        (Send("payment", "o-1", Ship()), r"aggregates\.order\.Ship is not a command of 'payment'"),
        (Send("sensor", "o-1", Ship()), "commands topic of 'sensor' did not exist"),
        (Send("order", "x" * 1025, Ship()), "aggregate_id has 1025 bytes"),
    ],
)
def test_invalid_commands_raise(send: Send, problem: str) -> None:
    with pytest.raises(InvalidReaction, match=problem):
        COMPOSER.compose(recorded(), (send,))


def test_large_data_become_payloads() -> None:
    """The verification computes one digest for a command with its data and with a payload reference."""
    codec = RecordCodec(PayloadStoreAddress("file:///nowhere", threshold=1024))
    composer_with_store = CommandComposer(
        "checkout",
        checkout.process,
        COMMANDS,
        "murmur2",
        lambda name: registry.load(name, "aggregates", ROOT),
        codec,
    )
    sends = (Send("payment", "o-1", Request("ann" * 500)), Send("payment", "o-1", Request("ann")))
    without_store, small = COMPOSER.compose(recorded(), sends)
    with_reference, unchanged = composer_with_store.compose(recorded(), sends)
    ((reference, data),) = with_reference.payloads.items()
    assert find_reference(with_reference.value) == reference and data_of_document(without_store.value) == data
    assert len(with_reference.value) < 1024 < len(data) < with_reference.size and small == unchanged
    digests = {
        command_digest(command.topic, command.key, command.value)
        for command in (without_store, with_reference)
    }
    assert len(digests) == 1 and command_digest(small.topic, small.key, small.value) not in digests


def test_processes_erase() -> None:
    """The command equals a client's command, and its owner decides it."""
    (command,) = PERSONAL.compose(recorded(), (Send("customer", "c-1", cqrs.Erase()),))
    assert (command.topic, command.key) == ("customer.commands", b"c-1")
    attributes = document(command)
    assert (attributes["type"], attributes["data"], attributes["source"]) == (
        "cqrs.Erase",
        {},
        "/cqrs/process/forgetting",
    )
    read_command(Record(0, 0, command.key, command.value, list(HEADERS)))


def test_only_personal_aggregates_can_be_erased() -> None:
    with pytest.raises(InvalidReaction, match="'order' has no personal fields, so it cannot be erased"):
        COMPOSER.compose(recorded(), (Send("order", "o-1", cqrs.Erase()),))
    with pytest.raises(InvalidReaction, match="Cancel is not a command of 'customer'"):
        PERSONAL.compose(recorded(), (Send("customer", "c-1", cqrs.Cancel("7")),))


@pytest.mark.parametrize(
    ("event", "aggregate"),
    [(Registered("Elm Street", "e@m", "free"), "elm street"), (Placed("ann"), "Elm Street")],
)
def test_errors_contain_no_personal_value(event: cqrs.Event, aggregate: str) -> None:
    """The error contains no value of the event, and none of the command."""

    def load(name: str) -> Aggregate:
        raise UsageError(f"there is no aggregate {name!r}", "known: customer")

    event_with_value = msgspec.structs.replace(recorded(), event=event)
    composer = CommandComposer("mine", checkout.process, {}, "murmur2", load)
    with pytest.raises(InvalidReaction, match=r"^redacted: the message contains a personal value$"):
        composer.compose(event_with_value, (Send(aggregate, "c-1", Order(("Elm Street",), 1)),))
