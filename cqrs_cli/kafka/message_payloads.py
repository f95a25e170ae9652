"""Adds data to messages of librdkafka, for readers that take them unconverted: downloads payloads, decrypts events."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from confluent_kafka import Message

from cqrs_cli.core.messages.payload_reference import REFERENCE_MARKER
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.records import records_of
from cqrs_cli.keys.event_decryptor import EventDecryptor
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.download import download_available, download_events, is_events_topic


def messages_with_data(
    store: PayloadStoreAddress | None,
    topic: str,
    partition: int,
    batches: Iterable[Sequence[Any]],
    decryptor: EventDecryptor | None = None,
) -> Iterator[Sequence[Any]]:
    """Yield events or commands with their data, in smaller batches if the data are large.

    Events are decrypted if there is a `decryptor`. Raises `PayloadUnavailableError` for an event whose data are
    unavailable; a command without available data is unchanged.
    """
    for messages in _with_payloads(store, topic, partition, batches):
        if decryptor is not None and is_events_topic(topic):
            decryptor.decrypt_in_place(partition, messages)
        yield messages


def _with_payloads(
    store: PayloadStoreAddress | None, topic: str, partition: int, batches: Iterable[Sequence[Any]]
) -> Iterator[Sequence[Any]]:
    if store is None or not topic.endswith((".events", ".commands")):
        yield from batches
        return
    download = (
        partial(download_events, store, topic, partition)
        if is_events_topic(topic)
        else partial(download_available, store, topic)
    )
    for messages in batches:
        if not any(map(_may_refer, messages)):
            yield messages
            continue
        remaining, rest = messages, records_of(messages)
        while rest:
            downloaded, rest = download(rest)
            batch, remaining = remaining[: len(downloaded)], remaining[len(downloaded) :]
            for message, record in zip(batch, downloaded, strict=True):
                _fill(message, record)
            yield batch


def _may_refer(message: Message) -> bool:
    """True if a message may refer to a payload: a cheap test. In binary mode such a command has no value."""
    value = message.value()
    return not value or REFERENCE_MARKER in value


def _fill(message: Any, record: Record) -> None:
    if message.value() != record.value:
        message.set_value(record.value)
        message.set_headers(record.headers)
