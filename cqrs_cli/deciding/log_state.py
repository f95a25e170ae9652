"""Step 3 of the owner protocol: reads the logs for `position`, and checks the resulting position."""

from collections.abc import Mapping
from typing import NamedTuple

from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.position import LogState, gap, inconsistency_error
from cqrs_cli.deciding.recover import parse_outcome
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import AggregateTopics, Kind
from cqrs_cli.keyspace.assigned_keys import AssignedKeys
from cqrs_cli.ownership.claim import Claim


def read_log_state(
    log: PartitionLog,
    aggregate_topics: AggregateTopics,
    bounds: Mapping[Kind, tuple[int, int]],
    committed: int | None,
    claim: Claim | None,
    assigned_keys: AssignedKeys,
) -> tuple[LogState, Record | None]:
    """Return the state of a partition's logs, and the record of its last outcome. `bounds`: (start, high watermark) of
    each log.

    Raises `StalledError` for an open transaction that may hide an outcome, `ContradictionError` for a last outcome that
    cannot be read.
    """
    start, end = bounds["commands"]
    last_outcome_record, last_event = (
        log.last_record(kind, *bounds[kind]) for kind in ("outcomes", "events")
    )
    accepted = claim.accepted if claim is not None else None
    outcome_command, event_command = (
        None if last_outcome_record is None else parse_outcome(log, last_outcome_record).data.offset,
        causing_command(last_event),
    )
    if (
        accepted is not None
        and last_outcome_record is not None
        and last_outcome_record.offset < accepted.outcomes
    ):
        outcome_command = None
    if accepted is not None and last_event is not None and last_event.offset < accepted.events[1]:
        event_command = None
    commands = _CommandRange(log, start, end)
    last_outcome_matches = commands.contains_cause(outcome_command, last_outcome_record)
    state = LogState(
        aggregate=log.topics.aggregate,
        topic=log.topics.commands,
        partition=log.partition,
        topic_id=aggregate_topics.ids["commands"],
        other_ids=(aggregate_topics.ids["events"], aggregate_topics.ids["outcomes"]),
        partitions=assigned_keys.effective_count,
        start=start,
        end=end,
        last_outcome=outcome_command,
        last_outcome_matches=last_outcome_matches,
        outcomes_start=bounds["outcomes"][0],
        has_events=last_event is not None,
        last_event=event_command,
        last_event_matches=not last_outcome_matches and commands.contains_cause(event_command, last_event),
        is_new=outcome_command is not None
        and outcome_command >= end
        and commands.all_later_than(last_outcome_record),
        committed=committed,
        claim=claim,
        deferred_id=aggregate_topics.ids["deferred"],
        was_repartitioned=assigned_keys.was_repartitioned,
    )
    return state, last_outcome_record


def causing_command(event: Record | None) -> int | None:
    """Return the offset of the command that caused an event; None if the event cannot be read: folding reports that."""
    try:
        return None if event is None else read_event(event.value).position()[1]
    except ValueError:
        return None


def check_last_decided(state: LogState) -> None:
    """Raise `ContradictionError` if another command is at the offset of the last decided command.

    The claim cannot show this: when a topic is recreated, its committed offset disappears, and with it the claim, which
    contains the old topic's id.
    """
    offset = state.last_outcome
    if offset is not None and state.start <= offset < state.end and not state.last_outcome_matches:
        problem = (
            f"command {offset} is not the command that was decided: the topic was deleted and created again"
        )
        raise inconsistency_error(state, problem, state.start)


def check_gap(log: PartitionLog, state: LogState, position: int) -> int:
    """Return the offset to continue from, after control records. Raises `ContradictionError` if an undecided command is
    before the committed offset.
    """
    start, end = gap(state, position)
    for records in log.read("commands", start, end):
        problem = f"offset {state.committed} is committed but command {records[0].offset} has no outcome"
        raise inconsistency_error(state, problem, position)
    return end


class _CommandRange(NamedTuple):
    """The commands of a partition, from `start` up to `end`."""

    log: PartitionLog
    start: int
    end: int

    def contains_cause(self, offset: int | None, effect: Record | None) -> bool:
        """Return True if the command at `offset` caused this outcome or event (`effect`): time and key are equal.

        In a recreated topic, another command is at the offset, or no command. The outcome of a command that an operator
        gave up may lack the key.
        """
        if offset is None or effect is None or not self.start <= offset < self.end:
            return False
        command = self.log.first_record("commands", offset, offset + 1)
        return (
            command is not None
            and command.timestamp == effect.timestamp
            and effect.key in (command.key, None)
        )

    def all_later_than(self, outcome: Record | None) -> bool:
        """Return True if the first command is later than this outcome: then no command of this topic was decided."""
        first_command = self.log.first_record("commands", self.start, self.end)
        return (
            first_command is not None and outcome is not None and first_command.timestamp > outcome.timestamp
        )
