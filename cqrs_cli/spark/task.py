"""The task of a read on a worker: a range of a partition, as Arrow batches."""

import gc
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import Message

from cqrs_cli.core.messages.payload_reference import MARK
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.clients import bulk_consumer
from cqrs_cli.kafka.readers import messages_with
from cqrs_cli.kafka.records import records_of
from cqrs_cli.payloads.check_out import check_out, look_up
from cqrs_cli.spark.command_rows import CommandRows
from cqrs_cli.spark.event_rows import EventRows
from cqrs_cli.spark.log import check_topic_id
from cqrs_cli.spark.options import SourceKind
from cqrs_cli.spark.outcome_rows import OutcomeRows
from cqrs_cli.spark.plan import SourcePlan
from cqrs_cli.spark.ranges import OffsetRange
from cqrs_cli.spark.rows import MessageList, RowMaker

if TYPE_CHECKING:
    import pyarrow

ROW_MAKERS: dict[SourceKind, type[RowMaker]] = {
    "events": EventRows,
    "commands": CommandRows,
    "outcomes": OutcomeRows,
}

#: Milliseconds that the broker may hold back a fetch at the end: a range mostly ends in a control record.
_AT_END = 10


def read_range(plan: SourcePlan, topic_id: str, part: OffsetRange) -> "Iterator[pyarrow.RecordBatch]":
    """The committed records of a range, in order. Raises `ContradictionError` if the topic was made again meanwhile."""
    maker = ROW_MAKERS[plan.kind](plan.topic, plan.load_aggregate(), plan.type)
    with _collecting_nothing(), closing(bulk_consumer(plan.connection, fetch_wait_max_ms=_AT_END)) as reader:
        arrived = messages_with(plan.connection, reader, plan.topic, *part)
        for messages in _with_data(plan, part.partition, arrived):
            batch = maker.batch(part.partition, messages)
            if batch.num_rows:
                yield batch
    check_topic_id(plan.connection, plan.topic, topic_id)


@contextmanager
def _collecting_nothing() -> Iterator[None]:
    """Switch cyclic garbage collection off: reading makes no cycles, and walking its objects takes time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _with_data(plan: SourcePlan, partition: int, batches: Iterable[MessageList]) -> Iterator[MessageList]:
    """The messages, in smaller batches where data are large; raises `PayloadUnavailableError` for an event's."""
    place = plan.connection.payloads
    if place is None or plan.kind == "outcomes":
        yield from batches
        return
    find = (
        partial(check_out, place, plan.topic, partition)
        if plan.kind == "events"
        else partial(look_up, place, plan.topic)
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
    """A cheap test: in binary mode a command that refers has no value."""
    value = message.value()
    return not value or MARK in value


def _fill(message: Any, record: Record) -> None:
    if message.value() != record.value:
        message.set_value(record.value)
        message.set_headers(record.headers)
