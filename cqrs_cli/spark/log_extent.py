"""The current offsets and the identity of a topic, read once for each plan."""

import time
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import KafkaException

from cqrs_cli.errors import ConfigurationError, ContradictionError, UsageError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.ownership.complete_events import check_starts
from cqrs_cli.spark.offset_ranges import Offsets
from cqrs_cli.spark.options import Bound, ReadOptions
from cqrs_cli.spark.plan import SourcePlan

#: Seconds to wait for a log that ends before the checkpoint, because a new leader may lag. Then records count as lost.
_BELIEVED_AFTER = 3.0


class Extent(NamedTuple):
    """A topic's identity, and the start and the last stable offset of each partition."""

    topic_id: str
    starts: dict[int, int]
    ends: dict[int, int]


class LogWatch:
    """Reads a topic's extent repeatedly with the same Kafka clients. Use it as a context manager."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection, self._topic = connection, topic
        self._admin = Admin(connection)
        self._reader = clients.consumer(connection)

    def __enter__(self) -> "LogWatch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._admin.close()
        self._reader.close()

    def extent(self) -> Extent:
        """Return the current extent. The topic id is read before and after the offsets, so that the offsets are of
        this topic id.
        """
        topic_id, partitions = self._identity()
        try:
            found = {
                number: readers.watermarks(self._reader, self._topic, number) for number in range(partitions)
            }
        except KafkaException as error:
            raise clients.to_error(
                self._connection, error, RequiredAcl("Read", "topic", self._topic)
            ) from error
        if self._identity()[0] != topic_id:
            raise recreated_error(self._topic)
        return Extent(
            topic_id,
            {number: start for number, (start, _) in found.items()},
            {number: end for number, (_, end) in found.items()},
        )

    def extent_with(self, positions: Offsets, topic_id: str) -> Extent:
        """Return the extent; raise `ContradictionError` if the topic was recreated, or lacks records at `positions`."""
        deadline = time.monotonic() + _BELIEVED_AFTER
        while True:
            found = self.extent()
            check_positions(self._topic, positions, topic_id, found)
            short = [number for number, at in positions.items() if at > found.ends[number]]
            if not short:
                return found
            if time.monotonic() > deadline:
                number = short[0]
                raise ContradictionError(
                    f"{self._topic} partition {number}: the checkpoint is at {positions[number]}, but the log ends at "
                    f"{found.ends[number]}",
                    "records were lost: look with cqrs doctor, then start with a new checkpointLocation",
                )
            time.sleep(0.2)

    def _identity(self) -> tuple[str, int]:
        found = self._admin.describe([self._topic]).get(self._topic)
        if found is None:
            raise ConfigurationError(f"topic {self._topic} does not exist", "create it: cqrs init")
        return found.topic_id, found.partitions


def check_positions(topic: str, positions: Offsets, topic_id: str, found: Extent) -> None:
    """Raise `ContradictionError` if the topic was recreated, or if the records at a position are deleted."""
    if found.topic_id != topic_id:
        raise recreated_error(topic)
    if gone := sorted(positions.keys() - found.starts.keys()):
        raise ContradictionError(
            f"{topic} has no partition {gone[0]} any more", "start with a new checkpointLocation"
        )
    for number, low in found.starts.items():
        at = positions.get(number, 0)
        if at < low:
            raise ContradictionError(
                f"{topic} partition {number}: the checkpoint is at {at}, but the records before {low} are deleted",
                "what they held is lost here: start with a new checkpointLocation",
            )


def recreated_error(topic: str) -> ContradictionError:
    """Return the error for a topic that was deleted and created again."""
    return ContradictionError(
        f"{topic} was deleted and made again: its offsets mean other records",
        "start with a new checkpointLocation",
    )


def check_topic_id(connection: Connection, topic: str, topic_id: str) -> None:
    """Raise `ContradictionError` if the topic was recreated after the read was planned."""
    with Admin(connection) as admin:
        found = admin.describe([topic]).get(topic)
    if found is None or found.topic_id != topic_id:
        raise recreated_error(topic)


def check_first_events(plan: SourcePlan, options: ReadOptions, extent: Extent) -> None:
    """Raise `ContradictionError` if a read from the beginning would miss deleted events."""
    if plan.kind == "events" and options.start.kind == "earliest":
        check_starts(plan.connection, plan.topics, extent.starts)


def offsets_of(bound: Bound, name: str, connection: Connection, topic: str, extent: Extent) -> dict[int, int]:
    """Return the offset of a bound in each partition; `name` is the option of the bound, for errors.

    A time means the first record at or after that time. Raises `UsageError` for offsets outside the log.
    """
    if bound.kind == "earliest":
        return dict(extent.starts)
    if bound.kind == "latest":
        return dict(extent.ends)
    if bound.kind == "time":
        found = {number: readers.offset_at(connection, topic, number, bound.time) for number in extent.ends}
        return {
            number: extent.ends[number]
            if at is None
            else min(max(at, extent.starts[number]), extent.ends[number])
            for number, at in found.items()
        }
    return _given_offsets(bound.offsets, name, topic, extent)


def _given_offsets(offsets: Mapping[int, int], name: str, topic: str, extent: Extent) -> dict[int, int]:
    if offsets.keys() != extent.ends.keys():
        raise UsageError(
            f"option {name}: {topic} has the partitions 0 to {len(extent.ends) - 1}, given are "
            f"{', '.join(map(str, sorted(offsets))) or 'none'}",
            "name each of them",
        )
    for number, at in offsets.items():
        low, high = extent.starts[number], extent.ends[number]
        if not low <= at <= high:
            raise UsageError(
                f"option {name}: {topic} partition {number} has no offset {at}", f"it has {low} to {high}"
            )
    return dict(offsets)
