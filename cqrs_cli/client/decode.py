"""Events for consumers: a record of an events topic as a value, read by the code that folds it."""

from pathlib import Path
from typing import Any

import msgspec

from cqrs_cli.client.project import project_aggregates
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.fold import FoldError
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.recorded import Recorded, record_event
from cqrs_cli.errors import ContradictionError, UsageError
from cqrs_cli.payloads.check_out import check_out


class _Typed(msgspec.Struct, gc=False):
    type: str


_read_type = msgspec.json.Decoder(_Typed).decode


def decode(record: Any, *, project: str | Path | None = None) -> Recorded[Event]:
    """The event in a record of an events topic: a message of confluent-kafka, or a record of kafka-python.

    Its class is found in `project`, the folder of a project or a folder within; by default the current one. Raises
    `ContradictionError` for a record that is not an event of the aggregate, `UsageError` if there is no such aggregate,
    or if the message is an error of the consumer's. Large data come from the project's payload store: raises
    `PayloadUnavailableError`. Personal fields have their placeholders where the project has no ring of keys.
    """
    error = _member(record, "error") if hasattr(record, "error") else None
    if error is not None:
        raise UsageError(f"not a record, but an error of the consumer's: {error}", "look at error() first")
    value, topic = _member(record, "value"), _member(record, "topic")
    partition, offset = _member(record, "partition"), _member(record, "offset")
    try:
        name, dot, _ = _read_type(value or b"").type.partition(".")
        if not dot:
            raise FoldError("its type names no aggregate")
        known = project_aggregates(Path.cwd() if project is None else Path(project))
        aggregate = known.aggregate(name)
        if known.payloads is not None:
            found, _ = check_out(known.payloads, topic, partition, [Record(offset, 0, None, value)])
            value = found[0].value
        (whole,) = known.opener(aggregate, topic).opened(partition, [Record(offset, 0, None, value)])
        value = whole.value
        return record_event(aggregate, value, topic, partition, offset)
    except (FoldError, ValueError) as failure:
        raise ContradictionError(
            f"{topic}:{partition}@{offset}: {failure}", "is it a record of an events topic?"
        ) from failure


def _member(record: Any, name: str) -> Any:
    """A method's result, or the attribute: the two clients differ in this."""
    found = getattr(record, name)
    return found() if callable(found) else found
