"""The task of `cqrs check --log` on a worker: decode one partition's events, without folding them."""

from dataclasses import dataclass
from typing import NamedTuple

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import FoldError, decode_event
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.registry import load
from cqrs_cli.scans.guarded import guarded
from cqrs_cli.scans.plan import ReadPlan


class Unreadable(NamedTuple):
    """The first unreadable event of a type in a partition, and the number of such events."""

    type: str  # empty for a record that is not an event
    partition: int
    offset: int
    times: int
    reason: str


@dataclass(frozen=True, slots=True)
class Readable:
    """The result for one partition, or the error that ends the job."""

    partition: int
    events: int = 0
    unreadable: tuple[Unreadable, ...] = ()
    error: CqrsError | None = None


def read_partition(plan: ReadPlan, partition: int) -> Readable:
    """Read all events of a partition. Returns an error as a value, so that no Spark task fails."""
    log = PartitionLog(plan.connection, plan.topics, partition, plan.connection.payload_codec())

    def work() -> Readable:
        aggregate = load(plan.topics.aggregate, plan.package, plan.root)
        events, found = 0, dict[str, Unreadable]()
        for records in log.events(*plan.bounds[partition]):
            events += len(records)
            for record in records:
                _add_unreadable(aggregate, partition, record, found)
        return Readable(partition, events, tuple(found.values()))

    return guarded(
        plan.connection, log.log_name("events"), work, lambda error: Readable(partition, error=error)
    )


def _add_unreadable(
    aggregate: Aggregate, partition: int, record: Record, found: dict[str, Unreadable]
) -> None:
    """Add the event to `found` if it cannot be read."""
    event_type = ""
    try:
        event = read_event(record.value)
        event_type = event.type
        decode_event(aggregate, event)
    except (FoldError, ValueError) as error:
        entry = found.get(event_type) or Unreadable(event_type, partition, record.offset, 0, str(error))
        found[event_type] = entry._replace(times=entry.times + 1)
