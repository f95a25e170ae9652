"""Events for consumers: decode a record of an events topic with the aggregate's code."""

from pathlib import Path
from typing import Any

import msgspec

from cqrs_cli.client.project_aggregates import project_aggregates
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.fold import FoldError
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.recorded import Recorded, read_recorded_event
from cqrs_cli.errors import ContradictionError, UsageError


class _EventTypeOnly(msgspec.Struct, gc=False):
    type: str


_read_type = msgspec.json.Decoder(_EventTypeOnly).decode


def decode(record: Any, *, project: str | Path | None = None) -> Recorded[Event]:
    """Return the event in a record of an events topic. `record`: a message of confluent-kafka, or a record of
    kafka-python.

    `project`: the folder of the project that defines the event's class, or a folder inside it; by default the current
    folder. Large data come from the project's payload store. Personal fields are redacted if the project has no
    keyring.

    Raises `ContradictionError` for a record that is not an event of the aggregate, `PayloadUnavailableError` if large
    data are missing, `UsageError` for an unknown aggregate, and for a message that only reports an error of the
    consumer.
    """
    error = _member(record, "error") if hasattr(record, "error") else None
    if error is not None:
        raise UsageError(
            f"not a record, but an error of the consumer: {error}",
            "check record.error() before you decode it",
        )
    value, topic = _member(record, "value"), _member(record, "topic")
    partition, offset = _member(record, "partition"), _member(record, "offset")
    try:
        aggregate_name, dot, _ = _read_type(value or b"").type.partition(".")
        if not dot:
            raise FoldError("its type names no aggregate")
        aggregates = project_aggregates(Path.cwd() if project is None else Path(project))
        aggregate = aggregates.aggregate(aggregate_name)
        codec = aggregates.codec(aggregate, topic)
        (decoded,), _ = codec.decode(topic, partition, [Record(offset, 0, None, value)])
        return read_recorded_event(aggregate, decoded.value, topic, partition, offset)
    except (FoldError, ValueError) as failure:
        raise ContradictionError(
            f"{topic}:{partition}@{offset}: {failure}", "decode only records of an events topic"
        ) from failure


def _member(record: Any, name: str) -> Any:
    """Return a record's attribute `name`, or the result if it is a method: confluent-kafka has methods, kafka-python
    attributes.
    """
    member = getattr(record, name)
    return member() if callable(member) else member
