"""Checks of what a projection reads: that the log has its position, and that the topics are still the same."""

import time
from collections.abc import Mapping

from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition

#: Seconds that a log must look too short before that is believed.
_BELIEVED_AFTER = 3.0


def check_position(connection: Connection, name: str, source: EventPartition, position: int) -> None:
    """Raise `ContradictionError` for a position that the log does not have (any more, or yet).

    Looks for some seconds: a broker that has just become the leader may show less of a log than there is.
    """
    deadline = time.monotonic() + _BELIEVED_AFTER
    while True:
        bounds = readers.bounds(connection, source.topic, [source.partition], "read_uncommitted")
        low, high = bounds[source.partition]
        if low <= position <= high:
            return
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    lost = f"events before {low} are deleted" if position < low else f"the log ends at {high}"
    raise ContradictionError(
        f"{source.topic} partition {source.partition}: the position is {position}, but {lost}",
        f"fill the tables again: cqrs project {name} --rebuild",
    )


def check_topic_ids(connection: Connection, name: str, topic_ids: Mapping[str, str]) -> dict[str, int]:
    """The number of partitions of each topic now.

    Raises `ContradictionError` if one was deleted, or made again, while its events were projected.
    """
    with Admin(connection) as admin:
        found = admin.describe(topic_ids)
    for topic, topic_id in topic_ids.items():
        there = found.get(topic)
        if there is None or there.topic_id != topic_id:
            raise ContradictionError(
                f"{topic} was deleted{' and made again' if there else ''} while {name} was filled from it",
                f"once its events are there, fill the tables from them: cqrs project {name} --rebuild",
            )
    return {topic: found[topic].partitions for topic in topic_ids}
