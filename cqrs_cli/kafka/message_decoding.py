"""Decodes librdkafka's messages in place, for readers that do not convert them to `Record` objects."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.records import records_of


def decode_messages(
    codec: RecordCodec, topic: str, partition: int, batches: Iterable[Sequence[Any]]
) -> Iterator[Sequence[Any]]:
    """Yield the messages of consecutive batches, decoded as by `RecordCodec.decode`. A batch with large data is yielded
    in several batches.
    """
    for messages in batches:
        if codec.is_identity or not any(codec.may_change(topic, message.value()) for message in messages):
            yield messages
            continue
        remaining_messages, remaining_records = messages, records_of(messages)
        while remaining_records:
            decoded, remaining_records = codec.decode(topic, partition, remaining_records)
            batch, remaining_messages = remaining_messages[: len(decoded)], remaining_messages[len(decoded) :]
            for message, record in zip(batch, decoded, strict=True):
                _replace_content(message, record)
            yield batch


def _replace_content(message: Any, record: Record) -> None:
    if message.value() != record.value:
        message.set_value(record.value)
        message.set_headers(record.headers)
