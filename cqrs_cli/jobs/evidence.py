"""What step 3 of the owner protocol looks up in the logs, and what it makes of records where none should be."""

from cqrs_cli.core.event import read_event
from cqrs_cli.core.record import Record
from cqrs_cli.jobs.position import Log, contradiction, gap
from cqrs_cli.kafka.connection import Connection
from cqrs_cli.kafka.readers import read


def cause_of(event: Record | None) -> int | None:
    """The offset of the command that an event comes from; None if it does not say: folding it names what is wrong."""
    try:
        return None if event is None else read_event(event.value).position()[1]
    except ValueError:
        return None


def lies_there(connection: Connection, topic: str, partition: int, offset: int, outcome: Record) -> bool:
    """Whether the command at `offset` is the one of the `outcome`: a topic made again holds others, or none."""
    for records in read(connection, topic, partition, offset, offset + 1):
        return (records[0].timestamp, records[0].key) == (outcome.timestamp, outcome.key)
    return False


def check_last_decided(log: Log) -> None:
    """The last command decided must lie where it lay: a topic that was made again took its committed offset, and with
    it the old topic's id, away. Raises `ContradictionError`.
    """
    offset = log.last_outcome
    if offset is not None and log.start <= offset < log.end and not log.lies:
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
