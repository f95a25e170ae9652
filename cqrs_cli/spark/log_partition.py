"""The input of a read's tasks, as an `InputPartition` of PySpark."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition  # noqa: TID253 - a base class from PySpark

from cqrs_cli.spark.offset_ranges import OffsetRange
from cqrs_cli.spark.plan import SourcePlan, without_traceback
from cqrs_cli.spark.task import read_range

if TYPE_CHECKING:
    import pyarrow


class InputRange(InputPartition):
    """The input of one task: a range of offsets in the topic with the id `topic_id`."""

    def __init__(self, topic_id: str, offset_range: OffsetRange) -> None:
        super().__init__(offset_range)
        self.topic_id = topic_id


def read_input_partition(plan: SourcePlan, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
    """Yield the rows of a task. For an empty read, PySpark passes a partition of its own, which has no rows."""
    if isinstance(partition, InputRange):
        with without_traceback():
            yield from read_range(plan, partition.topic_id, partition.value)
