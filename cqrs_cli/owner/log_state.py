"""What step 3 of the owner protocol looks up in the logs, and what it makes of records where none should be."""

from collections.abc import Mapping
from typing import NamedTuple

from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.readers import first_record, last_record, read
from cqrs_cli.kafka.topics.topics import AggregateTopics, Kind, Topics
from cqrs_cli.owner.claim import Claim
from cqrs_cli.owner.position import LogState, contradiction, gap
from cqrs_cli.owner.recover import outcome_of


def read_log_state(
    connection: Connection,
    ground: AggregateTopics,
    partition: int,
    bounds: Mapping[Kind, tuple[int, int]],
    committed: int | None,
    claim: Claim | None,
) -> tuple[LogState, Record | None]:
    """What the logs of a partition say, and its last outcome. `bounds`: (start, high watermark) of each.

    Raises `StalledError` for an open transaction that may hide an outcome, `ContradictionError` for what is none.
    """
    topics, (start, end) = ground.topics, bounds["commands"]
    last = last_record(connection, topics.outcomes, partition, *bounds["outcomes"])
    event = last_record(connection, topics.events, partition, *bounds["events"])
    accepted = claim.accepted if claim is not None else None
    decided, made = None if last is None else outcome_of(topics, partition, last).data.offset, cause_of(event)
    if accepted is not None and last is not None and last.offset < accepted.outcomes:
        decided = None
    if accepted is not None and event is not None and event.offset < accepted.events[1]:
        made = None
    commands = _Commands(connection, topics, partition, start, end)
    last_outcome_matches = commands.hold(decided, last)
    log = LogState(
        aggregate=topics.aggregate,
        topic=topics.commands,
        partition=partition,
        topic_id=ground.ids["commands"],
        other_ids=(ground.ids["events"], ground.ids["outcomes"]),
        partitions=ground.partitions,
        start=start,
        end=end,
        last_outcome=decided,
        last_outcome_matches=last_outcome_matches,
        outcomes_start=bounds["outcomes"][0],
        has_events=event is not None,
        last_event=made,
        last_event_matches=not last_outcome_matches and commands.hold(made, event),
        is_new=decided is not None and decided >= end and commands.are_later_than(last),
        committed=committed,
        claim=claim,
    )
    return log, last


def cause_of(event: Record | None) -> int | None:
    """The offset of the command that an event comes from; None if it does not say: folding it names what is wrong."""
    try:
        return None if event is None else read_event(event.value).position()[1]
    except ValueError:
        return None


def check_last_decided(log: LogState) -> None:
    """The last command decided must lie where it lay: a topic that was made again took its committed offset, and with
    it the old topic's id, away. Raises `ContradictionError`.
    """
    offset = log.last_outcome
    if offset is not None and log.start <= offset < log.end and not log.last_outcome_matches:
        what = f"command {offset} is not the one that was decided: the topic was deleted and created again"
        raise contradiction(log, what, log.start)


def check_gap(connection: Connection, log: LogState, at: int) -> int:
    """Nothing undecided may lie before the committed offset: where to go on, behind control records. Raises
    `ContradictionError`.
    """
    start, end = gap(log, at)
    for records in read(connection, log.topic, log.partition, start, end):
        what = f"offset {log.committed} is committed but command {records[0].offset} has no outcome"
        raise contradiction(log, what, at)
    return end


class _Commands(NamedTuple):
    """The commands of a partition."""

    connection: Connection
    topics: Topics
    partition: int
    start: int
    end: int

    def first(self, start: int, end: int) -> Record | None:
        """The first one in a stretch."""
        return first_record(self.connection, self.topics.commands, self.partition, start, end)

    def hold(self, offset: int | None, of: Record | None) -> bool:
        """Whether the command at `offset` is the one that an outcome or event is `of`: a topic made again holds others,
        or none. The outcome of a command that was given up may lack its key.
        """
        if offset is None or of is None or not self.start <= offset < self.end:
            return False
        there = self.first(offset, offset + 1)
        return there is not None and there.timestamp == of.timestamp and of.key in (there.key, None)

    def are_later_than(self, outcome: Record | None) -> bool:
        """Whether even the first is: none of these was ever decided."""
        first = self.first(self.start, self.end)
        return first is not None and outcome is not None and first.timestamp > outcome.timestamp
