"""Batches of decisions, written as an owner writes them."""

from collections.abc import Iterable

from confluent_kafka import Consumer

from cqrs_cli.core.context import Decisions
from cqrs_cli.kafka.writer import FencedWriter, WrittenEnds


def commit_batch(
    writer: FencedWriter,
    pieces: Iterable[Decisions],
    group: Consumer,
    offset: int,
    metadata: str,
    is_position_due: bool = True,
) -> WrittenEnds:
    """Write all pieces and the position in one transaction. A position that is not due is left out."""
    with writer.batch(group) as batch:
        for piece in pieces:
            batch.write(piece)
        batch.set_position(offset, metadata, is_position_due)
    return batch.written
