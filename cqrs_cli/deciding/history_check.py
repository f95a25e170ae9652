"""Checks that a shard was folded from the present log: the last folded records must still be at their offsets."""

from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Kind
from cqrs_cli.state.errors import REBUILD_HINT, AheadError
from cqrs_cli.state.evidence import Evidence


def check_history(log: PartitionLog, last_event: Evidence | None, last_outcome: Evidence | None) -> None:
    """Raise `AheadError` for a shard whose last folded records are not in the log; it is then quarantined and rebuilt
    from the log. Call this before the shard is folded further.
    """
    if mismatch := history_mismatch(log, last_event, last_outcome):
        raise AheadError(f"the shard was folded from records that the log has lost: {mismatch}", REBUILD_HINT)


def history_mismatch(log: PartitionLog, last_event: Evidence | None, last_outcome: Evidence | None) -> str:
    """Return why the log cannot be the log from which the shard was folded; empty if no difference is found.

    Only the last folded event and outcome are compared. A record that retention has deleted, or that is after the end
    of the log, is not compared.
    """
    last_folded: tuple[tuple[Kind, Evidence | None], ...] = (
        ("events", last_event),
        ("outcomes", last_outcome),
    )
    for kind, evidence in last_folded:
        if evidence is None:
            continue
        start, end = log.bounds(kind)
        offset = evidence.offset
        if start <= offset < end and not evidence.matches(log.first_record(kind, offset, offset + 1)):
            return f"{log.log_name(kind)} has another record at {offset} than the record that was folded"
    return ""
