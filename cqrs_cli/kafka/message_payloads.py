"""Adds data to messages of librdkafka, for readers that take them unconverted: downloads payloads, decrypts events."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from confluent_kafka import Message

from cqrs_cli.core.messages.payload_reference import MARK
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.records import records_of
from cqrs_cli.keys.event_decryptor import EventDecryptor
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.download import check_out, holds_events, look_up


def messages_with_data(
    place: PayloadStoreAddress | None,
    topic: str,
    partition: int,
    batches: Iterable[Sequence[Any]],
    opener: EventDecryptor | None = None,
) -> Iterator[Sequence[Any]]:
    """Yield events or commands with their data, in smaller batches if the data are large.

    Events are decrypted if there is an `opener`. Raises `PayloadUnavailableError` for an event whose data are
    unavailable; a command without available data is unchanged.
    """
    for messages in _fetched(place, topic, partition, batches):
        if opener is not None and holds_events(topic):
            opener.fill(partition, messages)
        yield messages


def _fetched(
    place: PayloadStoreAddress | None, topic: str, partition: int, batches: Iterable[Sequence[Any]]
) -> Iterator[Sequence[Any]]:
    if place is None or not topic.endswith((".events", ".commands")):
        yield from batches
        return
    find = (
        partial(check_out, place, topic, partition) if holds_events(topic) else partial(look_up, place, topic)
    )
    for messages in batches:
        if not any(map(_may_refer, messages)):
            yield messages
            continue
        left, rest = messages, records_of(messages)
        while rest:
            found, rest = find(rest)
            some, left = left[: len(found)], left[len(found) :]
            for message, record in zip(some, found, strict=True):
                _fill(message, record)
            yield some


def _may_refer(message: Message) -> bool:
    """True if a message may refer to a payload: a cheap test. In binary mode such a command has no value."""
    value = message.value()
    return not value or MARK in value


def _fill(message: Any, record: Record) -> None:
    if message.value() != record.value:
        message.set_value(record.value)
        message.set_headers(record.headers)
