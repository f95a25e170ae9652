"""Reads the extent of a topic (its id and the offsets of its partitions), and checks positions against it."""

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

#: Seconds to wait if a log ends before the checkpoint's offset, because a new leader may lag. After this time, records
#: count as lost.
_SHORT_LOG_TIMEOUT = 3.0


class Extent(NamedTuple):
    """The id of a topic, and the bounds of its partitions."""

    topic_id: str
    starts: dict[int, int]  # partition → first offset
    ends: dict[int, int]  # partition → last stable offset


class ExtentReader:
    """Reads a topic's extent repeatedly with the same Kafka clients. Use it as a context manager."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection, self._topic = connection, topic
        self._admin = Admin(connection)
        self._reader = clients.consumer(connection)

    def __enter__(self) -> "ExtentReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._admin.close()
        self._reader.close()

    def read_extent(self) -> Extent:
        """Return the current extent. The topic id is read before and after the offsets, so that the offsets belong to
        the topic with this id.
        """
        topic_id, partitions = self._identity()
        try:
            watermarks = {
                partition: readers.watermarks(self._reader, self._topic, partition)
                for partition in range(partitions)
            }
        except KafkaException as error:
            raise clients.to_error(
                self._connection, error, RequiredAcl("Read", "topic", self._topic)
            ) from error
        if self._identity()[0] != topic_id:
            raise recreated_error(self._topic)
        return Extent(
            topic_id,
            {partition: start for partition, (start, _) in watermarks.items()},
            {partition: end for partition, (_, end) in watermarks.items()},
        )

    def extent_containing(self, positions: Offsets, topic_id: str) -> Extent:
        """Return the current extent. Raise `ContradictionError` if the topic was recreated, or if the position of a
        partition is outside its log. `positions`: partition → offset in the checkpoint.
        """
        deadline = time.monotonic() + _SHORT_LOG_TIMEOUT
        while True:
            extent = self.read_extent()
            check_positions(self._topic, positions, topic_id, extent)
            short_partitions = [
                partition for partition, offset in positions.items() if offset > extent.ends[partition]
            ]
            if not short_partitions:
                return extent
            if time.monotonic() > deadline:
                partition = short_partitions[0]
                raise ContradictionError(
                    f"{self._topic} partition {partition}: the checkpoint is at {positions[partition]}, but the log "
                    f"ends at {extent.ends[partition]}",
                    "records were lost: examine the cluster with cqrs doctor, then start with a new "
                    "checkpointLocation",
                )
            time.sleep(0.2)

    def _identity(self) -> tuple[str, int]:
        topic_info = self._admin.describe([self._topic]).get(self._topic)
        if topic_info is None:
            raise ConfigurationError(f"topic {self._topic} does not exist", "create it: cqrs init")
        return topic_info.topic_id, topic_info.partitions


def check_positions(topic: str, positions: Offsets, topic_id: str, extent: Extent) -> None:
    """Raise `ContradictionError` if the topic was recreated, or if records after a position were deleted."""
    if extent.topic_id != topic_id:
        raise recreated_error(topic)
    if missing_partitions := sorted(positions.keys() - extent.starts.keys()):
        raise ContradictionError(
            f"{topic} has no partition {missing_partitions[0]} any more",
            "start with a new checkpointLocation",
        )
    for partition, low in extent.starts.items():
        offset = positions.get(partition, 0)
        if offset < low:
            raise ContradictionError(
                f"{topic} partition {partition}: the checkpoint is at {offset}, but the records before {low} are "
                "deleted",
                "this read cannot continue without them: start with a new checkpointLocation",
            )


def recreated_error(topic: str) -> ContradictionError:
    """Return the error for a topic that was deleted and created again."""
    return ContradictionError(
        f"{topic} was deleted and recreated: the checkpoint's offsets belong to other records",
        "start with a new checkpointLocation",
    )


def check_topic_id(connection: Connection, topic: str, topic_id: str) -> None:
    """Raise `ContradictionError` if the topic was recreated after the read was planned."""
    with Admin(connection) as admin:
        topic_info = admin.describe([topic]).get(topic)
    if topic_info is None or topic_info.topic_id != topic_id:
        raise recreated_error(topic)


def check_first_events(plan: SourcePlan, options: ReadOptions, extent: Extent) -> None:
    """Raise `ContradictionError` if a read from the beginning would miss deleted events."""
    if plan.kind == "events" and options.start.kind == "earliest":
        check_starts(plan.connection, plan.topics, extent.starts)


def offsets_of(bound: Bound, name: str, connection: Connection, topic: str, extent: Extent) -> dict[int, int]:
    """Return partition → offset of a bound. `name`: the option with the bound, for errors.

    The offset of a time is the offset of the first record at or after this time. Raises `UsageError` for offsets
    outside the log.
    """
    if bound.kind == "earliest":
        return dict(extent.starts)
    if bound.kind == "latest":
        return dict(extent.ends)
    if bound.kind == "time":
        offsets = {
            partition: readers.offset_at(connection, topic, partition, bound.time)
            for partition in extent.ends
        }
        return {
            partition: extent.ends[partition]
            if offset is None
            else min(max(offset, extent.starts[partition]), extent.ends[partition])
            for partition, offset in offsets.items()
        }
    return _checked_offsets(bound.offsets, name, topic, extent)


def _checked_offsets(offsets: Mapping[int, int], name: str, topic: str, extent: Extent) -> dict[int, int]:
    if offsets.keys() != extent.ends.keys():
        raise UsageError(
            f"option {name}: {topic} has the partitions 0 to {len(extent.ends) - 1}, found "
            f"{', '.join(map(str, sorted(offsets))) or 'none'}",
            "give an offset for each partition",
        )
    for partition, offset in offsets.items():
        low, high = extent.starts[partition], extent.ends[partition]
        if not low <= offset <= high:
            raise UsageError(
                f"option {name}: {topic} partition {partition} has no offset {offset}",
                f"it has {low} to {high}",
            )
    return dict(offsets)
