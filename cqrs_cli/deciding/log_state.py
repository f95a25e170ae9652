"""Step 3 of the owner protocol: reads the `LogState` from which `position.position` derives the next offset, and checks
this offset against the log.
"""

from collections.abc import Mapping
from typing import NamedTuple

from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.position import LogState, gap, inconsistency_error
from cqrs_cli.deciding.recover import parse_outcome
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Kind
from cqrs_cli.ownership.claim import Claim, first_valid_offset


def read_log_state(
    session: OwnerSession,
    bounds: Mapping[Kind, tuple[int, int]],
    committed: int | None,
    claim: Claim | None,
) -> tuple[LogState, Record | None]:
    """Return the state of a partition's logs, and the record of its last outcome. `bounds`: (log start, high watermark)
    of each log. `committed`, `claim`: the group's offset and the claim in its metadata.

    Raises `StalledError` for an open transaction that may hide an outcome, `ContradictionError` for a last outcome that
    cannot be read.
    """
    log, aggregate_topics, assigned_keys = session.log, session.aggregate_topics, session.assigned_keys
    start, end = bounds["commands"]
    last_outcome_record, last_event = (
        log.last_record(kind, *bounds[kind]) for kind in ("outcomes", "events")
    )
    outcome_command, event_command = (
        None if last_outcome_record is None else parse_outcome(log, last_outcome_record).data.offset,
        causing_command(last_event),
    )
    loss = None if claim is None else claim.accepted
    if last_outcome_record is not None and last_outcome_record.offset < first_valid_offset(loss, "outcomes"):
        outcome_command = None
    if last_event is not None and last_event.offset < first_valid_offset(loss, "events"):
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
        last_outcome_command=outcome_command,
        last_outcome_matches=last_outcome_matches,
        outcomes_start=bounds["outcomes"][0],
        has_events=last_event is not None,
        last_event_command=event_command,
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
    """Return the offset of the command that caused an event; None if `event` is None or cannot be read. Folding reports
    an unreadable event.
    """
    try:
        return None if event is None else read_event(event.value).position()[1]
    except ValueError:
        return None


def check_last_decided(state: LogState) -> None:
    """Raise `ContradictionError` if another command is at the offset of the last decided command: the topic was
    recreated.

    The topic's id in the claim does not always show this, because the recreation of a topic deletes its committed
    offset, and the claim with it.
    """
    offset = state.last_outcome_command
    if offset is not None and state.start <= offset < state.end and not state.last_outcome_matches:
        problem = (
            f"command {offset} is not the command that was decided: the topic was deleted and created again"
        )
        raise inconsistency_error(state, problem, state.start)


def check_gap(log: PartitionLog, state: LogState, position: int) -> int:
    """Return the committed offset, or `position` if it is higher. Raises `ContradictionError` if a command is between
    `position` and the committed offset: only control records may be there.
    """
    start, end = gap(state, position)
    for records in log.read("commands", start, end):
        problem = f"offset {state.committed} is committed but command {records[0].offset} has no outcome"
        raise inconsistency_error(state, problem, position)
    return end


class _CommandRange(NamedTuple):
    """The commands log of a partition, start ≤ offset < end."""

    log: PartitionLog
    start: int
    end: int

    def contains_cause(self, offset: int | None, effect: Record | None) -> bool:
        """Return True if the command at `offset` caused this outcome or event (`effect`), that is, if their timestamps
        and keys are equal. The outcome of an unreadable command may lack the key.

        In a recreated topic, another command or no command is at the offset.
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
        """Return True if the first command is later than this outcome. Then the outcome belongs to an earlier topic of
        the same name.
        """
        first_command = self.log.first_record("commands", self.start, self.end)
        return (
            first_command is not None and outcome is not None and first_command.timestamp > outcome.timestamp
        )
