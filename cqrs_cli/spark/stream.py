"""The data source `cqrs` as a stream. Spark's checkpoint stores the stream's position.

A position contains the topic id and, for each partition, the next offset (`next`) and the first offset of the stream
(`begin`). Each position has `begin`, because PySpark calls `initialOffset` again if the first batch was interrupted:
the second call may return other offsets, as for `startingOffsets=latest`.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition  # noqa: TID253 - the base classes
from pyspark.sql.streaming.datasource import (  # noqa: TID253
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from cqrs_cli.errors import UsageError
from cqrs_cli.spark.log_extent import (
    ExtentReader,
    check_first_events,
    check_positions,
    offsets_of,
    recreated_error,
)
from cqrs_cli.spark.log_partition import InputRange, read_input_partition
from cqrs_cli.spark.offset_ranges import Offsets, limit_ends, split_ranges
from cqrs_cli.spark.options import ReadOptions
from cqrs_cli.spark.plan import SourcePlan, without_traceback

if TYPE_CHECKING:
    import pyarrow

#: A position of the stream, as JSON in Spark's checkpoint:
#: `{"topic": "bank.events", "topic_id": "…", "begin": {"0": 0}, "next": {"0": 1200}}`.
StreamOffset = dict[str, Any]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the committed records from the start bound on. Each record is in exactly one batch."""

    def __init__(self, options: ReadOptions, plan: SourcePlan) -> None:
        self._options, self._plan = options, plan
        self._reader: ExtentReader | None = None
        self._is_checked = False  # True after `latestOffset` has checked the checkpoint's position
        self._end_offsets: Offsets | None = None  # end offsets of a stream with trigger `availableNow`

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None}  # a worker opens its own clients

    def initialOffset(self) -> StreamOffset:
        with without_traceback():
            extent = self._extent_reader().read_extent()
            plan = self._plan
            check_first_events(plan, self._options, extent)
            begin = offsets_of(self._options.start, "startingOffsets", plan.connection, plan.topic, extent)
            return _offset(plan.topic, extent.topic_id, begin, begin)

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_records
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        with without_traceback():
            self._end_offsets = self._extent_reader().read_extent().ends

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        with without_traceback():
            positions = self._positions(start)
            extent = self._extent_reader().extent_containing(positions, start["topic_id"])
            self._is_checked = True
            ends = extent.ends
            if self._end_offsets is not None:
                ends = {
                    partition: max(positions.get(partition, 0), end)
                    for partition, end in self._end_offsets.items()
                }
            if isinstance(limit, ReadMaxRows):
                ends = limit_ends(positions, ends, limit.max_rows)
            return _offset(self._plan.topic, extent.topic_id, _parse_offsets(start["begin"]), ends)

    def partitions(self, start: StreamOffset, end: StreamOffset) -> Sequence[InputPartition]:
        """Return the ranges of a batch. The first batch starts at `end["begin"]`, because `start` may come from a later
        call of `initialOffset` (see the module).
        """
        with without_traceback():
            if start["topic_id"] != end["topic_id"]:
                raise recreated_error(self._plan.topic)
            is_first = start["next"] == start["begin"]
            starts = _parse_offsets(end["begin"]) if is_first else self._positions(start)
            # After a restart, Spark repeats the last batch without a call of `latestOffset`, so it is checked here.
            if not self._is_checked:
                check_positions(
                    self._plan.topic, starts, end["topic_id"], self._extent_reader().read_extent()
                )
            ranges = split_ranges(starts, _parse_offsets(end["next"]), self._options.splits)
            return [InputRange(end["topic_id"], offset_range) for offset_range in ranges]

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        yield from read_input_partition(self._plan, partition)

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _extent_reader(self) -> ExtentReader:
        if self._reader is None:
            self._reader = ExtentReader(self._plan.connection, self._plan.topic)
        return self._reader

    def _positions(self, offset: StreamOffset) -> dict[int, int]:
        """Return the next offset of each partition; raise `UsageError` for a checkpoint of another topic."""
        if offset["topic"] != self._plan.topic:
            raise UsageError(
                f"the checkpoint is of {offset['topic']}, not of {self._plan.topic}",
                "give each stream a checkpointLocation of its own",
            )
        return _parse_offsets(offset["next"])


def _offset(topic: str, topic_id: str, begin: Offsets, next_offsets: Offsets) -> StreamOffset:
    """Return a stream position with sorted keys, because Spark compares positions as text."""
    return {
        "topic": topic,
        "topic_id": topic_id,
        "begin": {str(partition): begin[partition] for partition in sorted(begin)},
        "next": {str(partition): next_offsets[partition] for partition in sorted(next_offsets)},
    }


def _parse_offsets(offsets: dict[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in offsets.items()}
