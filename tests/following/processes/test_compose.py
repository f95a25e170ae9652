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
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.payload_reference import data_within, find_reference
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.process import Send
from cqrs_cli.core.react import InvalidReaction
from cqrs_cli.core.recorded import Recorded
from cqrs_cli.errors import UsageError
from cqrs_cli.following.processes.compose import ComposedCommand, Composer
from cqrs_cli.following.processes.plan import CommandsTopic
from cqrs_cli.following.processes.sent import command_digest
from cqrs_cli.payloads.address import PayloadStoreAddress
from tests.core.personal.customer import CUSTOMER, Order, Registered
from tests.support import ROOT

COMMANDS = {
    "order": CommandsTopic("order.commands", 4),
    "payment": CommandsTopic("payment.commands", 4),
}
COMPOSER = Composer("checkout", COMMANDS, "murmur2", lambda name: registry.load(name, "aggregates", ROOT))
PERSONAL = Composer(
    "forgetting",
    {"customer": CommandsTopic("customer.commands", 4)},
    "murmur2",
    {"customer": CUSTOMER}.__getitem__,
)
TIME = datetime(2026, 5, 1, tzinfo=UTC)


def recorded(id: str = "0/7/0", time: datetime = TIME, topic: str = "order.events") -> Recorded[Placed]:
    return Recorded(Placed("ann"), "o-1", 1, time, id, "c-1", "corr-1", 0, 8, topic)


def document(one: ComposedCommand) -> dict[str, Any]:
    return dict(msgspec.json.decode(one.value))


def test_commands_are_whole() -> None:
    send = Send("payment", "o-1", Request("ann"), expect=3, expires=timedelta(hours=1))
    (one,) = COMPOSER.compose(recorded(), (send,))
    assert document(one) == {
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
    assert (one.topic, one.key) == ("payment.commands", b"o-1")
    read_command(Record(0, 0, one.key, one.value, list(HEADERS)))


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
def test_moments_count_from_events(moment: datetime | timedelta, text: str) -> None:
    """The record does not depend on the time of composing."""
    (one,) = COMPOSER.compose(recorded(), (Send("order", "o-1", Ship(), not_before=moment),))
    assert document(one)["notbefore"] == text
    read_command(Record(0, 0, one.key, one.value, list(HEADERS)))


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("trace", "handed_on"),
    [
        ((TRACE, "vendor=1"), (TRACE, "vendor=1")),
        ((TRACE, None), (TRACE, None)),
        ((TRACE, "no state"), (TRACE, None)),
        (("whatever a client has sent", "vendor=1"), (None, None)),
        ((None, None), (None, None)),
    ],
)
def test_traces_are_handed_on(
    trace: tuple[str | None, str | None], handed_on: tuple[str | None, str | None]
) -> None:
    """Invalid traces are dropped, because a command with an invalid trace would be refused."""
    event = msgspec.structs.replace(recorded(), traceparent=trace[0], tracestate=trace[1])
    (one,) = COMPOSER.compose(event, (Send("order", "o-1", Ship()),))
    made = document(one)
    assert (made.get("traceparent"), made.get("tracestate")) == handed_on


events = st.builds(
    recorded,
    st.from_regex(r"[0-9]{1,3}/[0-9]{1,9}/[0-9]{1,2}", fullmatch=True),
    st.datetimes(datetime(2000, 1, 1), timezones=st.just(UTC)).map(lambda one: one.replace(microsecond=0)),
    st.sampled_from(["order.events", "payment.events"]),
)


@pytest.mark.covers("reacted-once")
@given(events, events, st.integers(1, 4))
def test_ids_are_of_the_event(one: Recorded[Placed], other: Recorded[Placed], count: int) -> None:
    """Ids do not depend on time, and differ for other events, also for the same offset in a recreated topic."""

    def ids(event: Recorded[Placed]) -> list[str]:
        return [
            document(made)["id"] for made in COMPOSER.compose(event, (Send("order", "o", Ship()),) * count)
        ]

    assert ids(one) == ids(one)
    assert len(set(ids(one))) == count
    same = (one.id, one.time, one.topic) == (other.id, other.time, other.topic)
    assert bool(set(ids(one)) & set(ids(other))) == same


@pytest.mark.parametrize(
    ("send", "problem"),
    [
        (Send("nobody", "o-1", Ship()), "no aggregate 'nobody'"),
        (Send("payment", "o-1", Ship()), r"aggregates\.order\.Ship is not a command of 'payment'"),
        (Send("sensor", "o-1", Ship()), "commands topic of 'sensor' was not there"),
        (Send("order", "x" * 1025, Ship()), "aggregate_id has 1025 bytes"),
    ],
)
def test_wrong_commands_are_refused(send: Send, problem: str) -> None:
    with pytest.raises(InvalidReaction, match=problem):
        COMPOSER.compose(recorded(), (send,))


def test_large_data_become_payloads() -> None:
    """The verification treats both alike."""
    place = PayloadStoreAddress("file:///nowhere", threshold=1024)
    storing = Composer(
        "checkout", COMMANDS, "murmur2", lambda name: registry.load(name, "aggregates", ROOT), place
    )
    sends = (Send("payment", "o-1", Request("ann" * 500)), Send("payment", "o-1", Request("ann")))
    whole, small = COMPOSER.compose(recorded(), sends)
    large, same = storing.compose(recorded(), sends)
    ((reference, data),) = large.payloads.items()
    assert find_reference(large.value) == reference and data_within(whole.value) == data
    assert len(large.value) < 1024 < len(data) < large.size and small == same
    digests = {command_digest(one.topic, one.key, one.value) for one in (whole, large)}
    assert len(digests) == 1 and command_digest(small.topic, small.key, small.value) not in digests


def test_processes_erase() -> None:
    """The command equals a client's command, and its owner decides it."""
    (one,) = PERSONAL.compose(recorded(), (Send("customer", "c-1", cqrs.Erase()),))
    assert (one.topic, one.key) == ("customer.commands", b"c-1")
    made = document(one)
    assert (made["type"], made["data"], made["source"]) == ("cqrs.Erase", {}, "/cqrs/process/forgetting")
    read_command(Record(0, 0, one.key, one.value, list(HEADERS)))


def test_processes_erase_only_what_is_personal() -> None:
    with pytest.raises(
        InvalidReaction, match="'order' marks no field as personal: there is nothing to erase"
    ):
        COMPOSER.compose(recorded(), (Send("order", "o-1", cqrs.Erase()),))
    with pytest.raises(InvalidReaction, match="Cancel is not a command of 'customer'"):
        PERSONAL.compose(recorded(), (Send("customer", "c-1", cqrs.Cancel("7")),))


@pytest.mark.parametrize(
    ("event", "aggregate"),
    [(Registered("Elm Street", "e@m", "free"), "elm street"), (Placed("ann"), "Elm Street")],
)
def test_words_hold_no_personal_value(event: cqrs.Event, aggregate: str) -> None:
    """The error contains no value of the event, and none of the command."""

    def load(name: str) -> Aggregate:
        raise UsageError(f"there is no aggregate {name!r}", "known: customer")

    heard = msgspec.structs.replace(recorded(), event=event)
    composer = Composer("mine", {}, "murmur2", load)
    with pytest.raises(InvalidReaction, match=r"^withheld: a personal value stands in the message$"):
        composer.compose(heard, (Send(aggregate, "c-1", Order(("Elm Street",), 1)),))
