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


class UnreadableType(NamedTuple):
    """The first unreadable event of a type in a partition, and the number of such events."""

    type: str  # empty for a record that is not an event
    partition: int
    offset: int  # of the first unreadable event
    times: int  # number of unreadable events of this type
    reason: str


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The result for one partition, or the error that ends the job."""

    partition: int
    events: int = 0
    unreadable: tuple[UnreadableType, ...] = ()
    error: CqrsError | None = None


def read_partition(plan: ReadPlan, partition: int) -> ReadResult:
    """Read all events of a partition. Returns an error as a value, so that no Spark task fails."""
    log = PartitionLog(plan.connection, plan.topics, partition, plan.connection.payload_codec())

    def work() -> ReadResult:
        aggregate = load(plan.topics.aggregate, plan.package, plan.root)
        event_count, unreadable = 0, dict[str, UnreadableType]()
        for records in log.events(*plan.bounds[partition]):
            event_count += len(records)
            for record in records:
                _add_unreadable(aggregate, partition, record, unreadable)
        return ReadResult(partition, event_count, tuple(unreadable.values()))

    return guarded(
        plan.connection, log.log_name("events"), work, lambda error: ReadResult(partition, error=error)
    )


def _add_unreadable(
    aggregate: Aggregate, partition: int, record: Record, unreadable: dict[str, UnreadableType]
) -> None:
    """Add the event to `unreadable` if it cannot be read. Only the first such event of a type is stored."""
    event_type = ""
    try:
        event = read_event(record.value)
        event_type = event.type
        decode_event(aggregate, event)
    except (FoldError, ValueError) as error:
        entry = unreadable.get(event_type) or UnreadableType(
            event_type, partition, record.offset, 0, str(error)
        )
        unreadable[event_type] = entry._replace(times=entry.times + 1)
