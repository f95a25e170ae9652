"""What step 3 of the owner protocol looks up in the logs, and what it makes of records where none should be."""

from cqrs_cli.core.record import Record
from cqrs_cli.jobs.position import Log, contradiction, gap
from cqrs_cli.kafka.connection import Connection
from cqrs_cli.kafka.readers import read


def holds_records(connection: Connection, topic: str, partition: int, start: int, end: int) -> bool:
    """Whether any visible record lies there: offsets alone may be control records."""
    return any(True for _ in read(connection, topic, partition, start, end))


def check_last_decided(connection: Connection, log: Log, last: Record | None) -> None:
    """The last command decided must lie where it lay: a topic that was made again took its committed offset, and with
    it the old topic's id, away. `last`: its outcome. Raises `ContradictionError`.
    """
    offset = log.last_outcome
    if last is None or offset is None or not log.start <= offset < log.end:
        return
    for records in read(connection, log.topic, log.partition, offset, offset + 1):
        if (records[0].timestamp, records[0].key) == (last.timestamp, last.key):
            return
    what = f"command {offset} is not the one that was decided: the topic was deleted and created again"
    raise contradiction(log, what, log.start)


def check_gap(connection: Connection, log: Log, at: int) -> int:
    """Nothing undecided may lie before the committed offset: where to go on, behind control records. Raises
    `ContradictionError`.
    """
    start, end = gap(log, at)
    for records in read(connection, log.topic, log.partition, start, end):
        what = f"offset {log.committed} is committed but command {records[0].offset} has no outcome"
        raise contradiction(log, what, at)
    return end
