"""Envelopes, compared with the CloudEvents SDK: cqrs reads messages of the SDK, and the SDK reads messages of cqrs."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record

FORMAT = JSONFormat()

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
json_values = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | words
datas = st.dictionaries(words, json_values | st.lists(json_values, max_size=3), max_size=4)
times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
extensions = st.fixed_dictionaries(
    {},
    optional={
        "expectedversion": st.sampled_from(["7", "any", "none", "exists", ">=3", "0"]),
        "expirytime": times.map(lambda moment: moment.isoformat()),
        "correlationid": words,
        "causationid": words,
        "traceparent": words,
        "colour": words,
    },
)
events = st.builds(
    lambda required, optional, time, data: CloudEvent(
        {**required, **optional, **({"time": time} if time else {})}, data
    ),
    st.fixed_dictionaries({"id": words, "source": words, "type": words, "subject": words}),
    extensions,
    st.none() | times,
    datas,
)


def read_message(message: KafkaMessage) -> CommandEnvelope:
    return read_command(Record(0, 0, b"key", message.value, list(message.headers.items())))


def check_equal(envelope: CommandEnvelope, event: CloudEvent) -> None:
    attributes = event.get_attributes()
    for name in ("id", "source", "type", "subject", "correlationid", "causationid", "traceparent"):
        assert getattr(envelope, name) == attributes.get(name), name
    assert envelope.expected_text() == attributes.get("expectedversion")
    expiry = attributes.get("expirytime")
    assert envelope.expirytime == (expiry and datetime.fromisoformat(expiry))
    assert json.loads(bytes(envelope.data)) == event.get_data()


@given(events)
def test_structured_sdk_commands_are_read(event: CloudEvent) -> None:
    check_equal(read_message(to_structured(event, FORMAT)), event)


@given(events)
def test_binary_sdk_commands_are_read(event: CloudEvent) -> None:
    check_equal(read_message(to_binary(event, FORMAT)), event)


@given(events)
def test_both_modes_are_read_alike(event: CloudEvent) -> None:
    structured, binary = read_message(to_structured(event, FORMAT)), read_message(to_binary(event, FORMAT))
    assert structured.expected_text() == binary.expected_text()
    assert bytes(structured.data) == bytes(binary.data)


class Speak(cqrs.Command):
    words: str


class Spoken(cqrs.Event):
    words: str


class Talk(cqrs.State):
    count: int = 0


def decide(command: Speak, talk: Talk) -> list[Spoken]:
    if command.words == "no":
        raise cqrs.Rejected("nö", code="NO")
    return [Spoken(command.words)] * (command.words != "nothing")


def evolve(talk: Talk, event: Spoken) -> Talk:
    return Talk(talk.count + 1)


AGGREGATE = Aggregate.of("talk", cqrs.Decider(decide, evolve, Talk()))


def decide_command(data: dict[str, Any], **attributes: Any) -> Decisions:
    value = json.dumps(
        {
            "specversion": "1.0",
            "id": "c1",
            "source": "/t",
            "type": "talk.Speak",
            "subject": "süb",
            "data": data,
            **attributes,
        }
    )
    record = Record(7, 1_763_686_923_456, "süb".encode(), value.encode(), list(HEADERS))
    return decide_batch(
        AGGREGATE, [record], BatchContext(3, lambda _: None, lambda *_: None, lambda: 2_000_000_000_000)
    )


def read_by_sdk(output: tuple[bytes, bytes | None, int]) -> CloudEvent:
    value, key, _ = output
    event = from_kafka(KafkaMessage(dict(HEADERS), key, value), FORMAT)
    assert isinstance(event, CloudEvent)
    return event


@given(words)
def test_the_sdk_reads_events(text: str) -> None:
    if text in ("no", "nothing"):
        return
    event = read_by_sdk(decide_command({"words": text}, correlationid="order-9").events[0])
    assert (event.get_id(), event.get_type(), event.get_subject()) == ("3/7/0", "talk.Spoken", "süb")
    assert event.get_time() == datetime(2025, 11, 21, 1, 2, 3, 456000, UTC)
    assert event.get_extension("causationid") == "c1"
    assert event.get_extension("correlationid") == "order-9"
    assert event.get_extension("aggregateversion") == 1
    assert event.get_data() == {"words": text}


@pytest.mark.parametrize(
    ("data", "attributes", "status", "type"),
    [
        ({"words": "hi"}, {}, "accepted", "talk.Speak.accepted"),
        ({"words": "nothing"}, {}, "unchanged", "talk.Speak.unchanged"),
        ({"words": "no"}, {}, "rejected", "talk.Speak.rejected"),
        ({"words": "hi"}, {"expectedversion": ">=3"}, "rejected", "talk.Speak.rejected"),
        ({"words": "hi"}, {"expirytime": "2026-01-01T00:00:00Z"}, "rejected", "talk.Speak.rejected"),
        ({"words": 1}, {}, "failed", "talk.Speak.failed"),
        ({"words": "hi"}, {"type": "talk.Shout"}, "failed", "cqrs.failed"),
    ],
)
def test_the_sdk_reads_outcomes(
    data: dict[str, Any], attributes: dict[str, Any], status: str, type: str
) -> None:
    event = read_by_sdk(decide_command(data, **attributes).outcomes[0])
    verdict = event.get_data()
    assert isinstance(verdict, dict)
    assert (event.get_id(), event.get_type(), event.get_subject()) == ("3/7", type, "süb")
    assert (verdict["status"], verdict["partition"], verdict["offset"]) == (status, 3, 7)
