"""Raises the partition count of an aggregate's topics. Each step may be repeated, so any caller can complete it."""

import time
from collections.abc import Callable

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.admin.client import REQUEST_TIMEOUT_MS
from cqrs_cli.kafka.admin.topics import Admin, create_extra
from cqrs_cli.kafka.topics.topics import Kind, Topics
from cqrs_cli.observer import reached

#: The order of the topics. The commands topic is last: before a command can be sent to a new partition, the partitions
#: for its results must exist.
ORDER: tuple[Kind, ...] = ("events", "outcomes", "dead-letters", "deferred", "commands")


def create_lineage_topic(admin: Admin, topics: Topics) -> None:
    """Create the lineage topic of an aggregate, at its first repartitioning."""
    create_extra(admin, topics, "lineage")


def add_partitions(admin: Admin, topics: Topics, count: int, report: Callable[[str], object] = str) -> None:
    """Raise the partition count of the five topics to `count`, one topic after the other. A topic with at least `count`
    partitions stays unchanged. `report` gets a text about each change.

    Raises `UnavailableError` if a broker does not show the new partitions in time; another call then continues.
    """
    for kind in ORDER:
        name = topics.name(kind)
        if len(admin.leader_flags(name)) < count:
            admin.add_partitions(name, count)
            _await_leaders(admin, name, count)
            reached("repartition.topic")
            report(f"{name} has {count} partitions")


def _await_leaders(admin: Admin, name: str, count: int) -> None:
    deadline = time.monotonic() + REQUEST_TIMEOUT_MS / 1000
    while len(leaders := admin.leader_flags(name)) < count or not all(leaders):
        if time.monotonic() > deadline:
            raise UnavailableError(
                f"topic {name} does not show {count} partitions with leaders",
                "try again: the command continues from here",
            )
        time.sleep(0.05)
