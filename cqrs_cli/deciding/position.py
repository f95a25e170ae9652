"""The position of an owner, derived from the log alone: a pure function, so that every case has a test."""

from typing import NamedTuple

from cqrs_cli.core.lineage import count_covering
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError, UsageError
from cqrs_cli.kafka.position_notation import format_position
from cqrs_cli.ownership.claim import UNKNOWN_TOPIC, UNKNOWN_TOPICS, Accepted, Claim


class LogState(NamedTuple):
    """The state of one partition's topics; offsets are of the commands topic.

    Outcomes and events from before an operator accepted a loss do not count.
    """

    aggregate: str
    topic: str
    partition: int
    topic_id: str
    other_ids: tuple[str, str]  # topic ids of the events and the outcomes
    partitions: int
    start: int  # of the commands
    end: int  # high watermark of the commands
    last_outcome: int | None  # the command offset in the last visible outcome
    last_outcome_matches: bool  # True if that command is still at its offset
    outcomes_start: int  # above 0 once retention has deleted outcomes
    has_events: bool
    last_event: int | None  # the command offset in the last visible event; None also if it is unreadable
    last_event_matches: bool  # as for the outcome; only checked if the outcome does not match
    is_new: bool  # True if all commands are later than the last outcome
    committed: int | None  # the group's offset; None if there is none, or it expired
    claim: Claim | None  # in the metadata of that offset
    deferred_id: str = UNKNOWN_TOPIC  # topic id of the deferred commands
    has_grown: bool = False  # True after a repartitioning: `partitions` is the partition's own count


def position(log: LogState, accept_loss: int | None = None) -> int:
    """Return the offset to decide next. The caller has to check that `gap(log, at)` contains only control records.

    Raises `ConfigurationError` if the partition count changed, `ContradictionError` if continuing would lose or repeat
    a decision. `accept_loss` is the offset from which an operator wants to continue; `UsageError` if the log does not
    have it. An offset that would repeat decisions is ignored, because it was given for an earlier loss. An accepted
    loss in the claim is valid until a command is decided after it.
    """
    if log.claim is not None:
        _check_count(log, log.claim.partitions)
    if accept_loss is not None and not _is_spent(log, accept_loss) and accept_loss >= _decided(log):
        check_place(log.topic, log.partition, accept_loss, log.start, log.end)
        return accept_loss
    if _is_another(log):
        raise contradiction(log, "the topic was deleted and created again", log.start)
    accepted = _accepted(log)
    at = 0 if log.last_outcome is None else log.last_outcome + 1
    if (other := _made_again(log)) is not None:
        what = f"the topic of its {other} was deleted and created again"
        raise contradiction(log, what, max(at, log.committed or 0))
    if log.last_outcome is None and accepted is not None and log.outcomes_start <= accepted.outcomes:
        at = accepted.offset
    elif log.last_outcome is None and log.outcomes_start > 0 and _is_ours(log):
        at = log.committed or 0  # retention has deleted all outcomes
    elif log.last_outcome is None and log.has_events:
        raise contradiction(
            log, "there are events but no outcome, so nothing says what was decided", log.start
        )
    if log.last_event is not None and log.last_event >= at:
        what = f"command {log.last_event} has events but no outcome"
        raise contradiction(log, what, log.last_event + 1)
    if log.committed is not None and log.committed < at:
        raise contradiction(log, f"offset {log.committed} is committed but {at - 1} is decided", at)
    if at > log.end:
        what = f"offset {at - 1} is decided but the log ends at {log.end}"
        raise contradiction(log, what, log.start if log.is_new else log.end)
    if at < log.start and not _nothing_lost(log, at):
        what = f"commands {at} to {log.start - 1} were deleted before they were decided"
        raise contradiction(log, f"{what}, if they were not of aborted transactions", log.start)
    if log.committed is not None and log.committed > log.end:
        raise contradiction(log, f"offset {log.committed} is committed but the log ends at {log.end}", at)
    return max(at, log.start)


def _check_count(log: LogState, claimed: int) -> None:
    """Check the count in the claim. It was committed with the split, so a history with a lower count is incomplete."""
    if not log.has_grown and claimed != log.partitions:
        raise another_count(log.aggregate, log.topic, claimed, log.partitions)
    if claimed > log.partitions:
        raise ContradictionError(
            f"{log.topic} partition {log.partition} has split to {claimed} partitions, "
            f"the lineage says {log.partitions}",
            "restore the lineage topic of the aggregate, if no broker has just come back",
        )


def another_count(aggregate: str, topic: str, before: int, now: int) -> ConfigurationError:
    """Return the error for a topic whose partition count changed without a repartitioning."""
    hint = "fewer partitions split aggregates: recreate it with the old count, or migrate to new topics"
    if now > before:
        least = count_covering(before, now)
        hint = f"the lineage must tell of it: cqrs repartition {aggregate} --partitions {least}"
    return ConfigurationError(f"{topic} had {before} partitions and now has {now}", hint)


def gap(log: LogState, at: int) -> tuple[int, int]:
    """Return the range of commands from `at` to the committed offset: only control records may be there."""
    return (at, log.committed) if log.committed is not None and log.committed > at else (at, at)


def check_place(topic: str, partition: int, offset: int, start: int, end: int) -> None:
    """Raise `UsageError` for an operator's offset that is not in the log."""
    if not start <= offset <= end:
        raise UsageError(
            f"{topic} partition {partition} has no offset {offset} to go on from",
            f"name one from {start} to {end}",
        )


def contradiction(log: LogState, what: str, onward: int) -> CqrsError:
    """Return the error of exit code 5. Its remedy names `onward`, or the nearest undecided offset in the log."""
    onward = min(max(onward, log.start, _decided(log)), log.end)
    if log.committed is not None and _is_spent(log, onward):
        onward = log.committed
    place = format_position(log.partition, onward, log.aggregate)
    return ContradictionError(
        f"{log.topic} partition {log.partition}: {what}",
        f"find out why; to go on from offset {onward}: cqrs run --accept-loss {place}",
    )


def _nothing_lost(log: LogState, at: int) -> bool:
    """Return True if an owner's committed offset proves that retention deleted no undecided command."""
    return _is_ours(log) and log.committed is not None and log.committed >= log.start and at <= log.committed


def _is_ours(log: LogState) -> bool:
    """Return True if an owner committed the offset while it decided this topic, not an earlier topic of this name."""
    return log.committed is not None and log.claim is not None and log.claim.topic_id == log.topic_id


def _is_another(log: LogState) -> bool:
    """Return True if the claim was committed when another topic had this name."""
    return log.claim is not None and log.claim.topic_id not in (UNKNOWN_TOPIC, log.topic_id)


def _accepted(log: LogState) -> Accepted | None:
    """Return the loss that an operator accepted for this topic, not for an earlier topic of this name."""
    if log.claim is None or log.claim.topic_id != log.topic_id:
        return None
    return log.claim.accepted


def _is_spent(log: LogState, word: int) -> bool:
    """Return True if an owner has already continued from this offset, and the position has moved on since."""
    accepted = _accepted(log)
    return accepted is not None and word == accepted.offset < (log.committed or 0) <= log.end


def _decided(log: LogState) -> int:
    """Return the offset in this topic below which every command is known to be decided or accepted as lost."""
    if _is_another(log):
        return 0
    traces = ((log.last_outcome, log.last_outcome_matches), (log.last_event, log.last_event_matches))
    shown = [last + 1 for last, matches in traces if last is not None and matches]
    if (accepted := _accepted(log)) is not None:
        shown.append(accepted.offset)
    if log.last_outcome is None and _is_ours(log):
        shown.append(log.committed or 0)
    return max((offset for offset in shown if offset <= log.end), default=0)


def _made_again(log: LogState) -> str | None:
    """Return the name of another topic that was recreated since the last owner wrote to it, or None."""
    before = UNKNOWN_TOPICS if log.claim is None else log.claim.other_ids
    for name, was, now in zip(("events", "outcomes"), before, log.other_ids, strict=True):
        if was not in (UNKNOWN_TOPIC, now):
            return name
    if log.claim is not None and log.claim.deferred_id not in (UNKNOWN_TOPIC, log.deferred_id):
        return "deferred commands"
    return None
