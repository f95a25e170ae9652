"""Checks that a projection's position fits the log, and that the topics were not recreated."""

import time

from cqrs_cli.deciding.history_check import history_mismatch
from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.positions import Position
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topic_identity import TopicIdentity, track_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.partition_log import PartitionLog


def check_position_in_log(connection: Connection, name: str, source: EventPartition, position: int) -> None:
    """Raise `ContradictionError` for a position before the start or after the end of the log.

    The mismatch must last for `readers.SHORT_LOG_TIMEOUT` seconds, because a broker may report an old end for a moment.
    """
    deadline = time.monotonic() + readers.SHORT_LOG_TIMEOUT
    while True:
        bounds = readers.bounds(connection, source.topic, [source.partition], "read_uncommitted")
        low, high = bounds[source.partition]
        if low <= position <= high:
            return
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    problem = f"events before {low} are deleted" if position < low else f"the log ends at {high}"
    raise ContradictionError(
        f"{source.topic} partition {source.partition}: the position is {position}, but {problem}",
        f"fill the tables again: cqrs project {name} --rebuild",
    )


def check_last_event(connection: Connection, name: str, source: EventPartition, position: Position) -> None:
    """Raise `ContradictionError` if the log no longer has the last event that was projected.

    This happens if the log was restored from a backup, and has received other events since.
    """
    log = PartitionLog(connection, source.topics, source.partition)
    if mismatch := history_mismatch(log, position.last_event, None):
        raise ContradictionError(
            f"{name} was filled from a history that the log has lost: {mismatch}",
            f"fill the tables again: cqrs project {name} --rebuild",
        )


def topic_identity(plan: ProjectionPlan) -> TopicIdentity:
    """Return the check of the topics that a projection reads: a deleted or recreated topic ends the projection."""

    def recreated_error(topic: str, recreated: bool) -> CqrsError:
        return ContradictionError(
            f"{topic} was {'recreated' if recreated else 'deleted'} while {plan.name} was filled from it",
            f"once the topic has its events, fill the tables from it: cqrs project {plan.name} --rebuild",
        )

    ids = {topic: description.topic_id for topic, description in plan.events_topics.items()}
    return track_topics(plan.connection, ids, recreated_error)
