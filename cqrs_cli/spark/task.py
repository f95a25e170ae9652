"""The task of a read on a worker: yields the rows of a range of offsets as Arrow batches."""

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from cqrs_cli.client.codecs import decrypting_codec_of_members
from cqrs_cli.kafka.clients import bulk_consumer
from cqrs_cli.kafka.message_decoding import decode_messages
from cqrs_cli.kafka.readers import messages_with
from cqrs_cli.spark.command_rows import CommandRows
from cqrs_cli.spark.event_rows import EventRows
from cqrs_cli.spark.log_extent import check_topic_id
from cqrs_cli.spark.offset_ranges import OffsetRange
from cqrs_cli.spark.options import SourceKind
from cqrs_cli.spark.outcome_rows import OutcomeRows
from cqrs_cli.spark.plan import SourcePlan
from cqrs_cli.spark.rows import RowMaker
from cqrs_cli.system.memory import without_garbage_collection

if TYPE_CHECKING:
    import pyarrow

ROW_MAKERS: dict[SourceKind, type[RowMaker]] = {
    "events": EventRows,
    "commands": CommandRows,
    "outcomes": OutcomeRows,
}


def read_range(plan: SourcePlan, topic_id: str, offset_range: OffsetRange) -> "Iterator[pyarrow.RecordBatch]":
    """Yield the rows of a range, in order. Raises `ContradictionError` if the topic no longer has the id `topic_id`."""
    maker = ROW_MAKERS[plan.kind](plan.aggregate, plan.topic, plan.load_aggregate(), plan.type)
    connection = plan.connection
    with (
        without_garbage_collection(),
        closing(bulk_consumer(connection)) as reader,
        closing(decrypting_codec_of_members(connection, plan.topics, plan.personal_members)) as codec,
    ):
        messages_read = messages_with(connection, reader, plan.topic, *offset_range)
        for messages in decode_messages(codec, plan.topic, offset_range.partition, messages_read):
            batch = maker.record_batch(offset_range.partition, messages)
            if batch.num_rows:
                yield batch
    check_topic_id(plan.connection, plan.topic, topic_id)
