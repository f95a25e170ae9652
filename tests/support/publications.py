"""A publication of orders, for tests: its source, its topic, and its public events."""

from pathlib import Path

from cqrs_cli.kafka.admin.positions import ensure_topic
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from tests.following.processes.process_harness import ProcessHarness
from tests.support.user_code import write_process

_PUBLICATION = """
from collections.abc import Iterator
import cqrs_cli as cqrs
from aggregates.order import Placed, Shipped

def publish(event: Placed | Shipped, at: cqrs.Recorded) -> Iterator[cqrs.PublicEvent]:
    {body}

process = cqrs.Publication(publish, topic="{topic}")
"""
_BODY = "yield cqrs.PublicEvent(type(event).__name__, at.aggregate_id, {'version': at.version})"


def write_publication(folder: Path, body: str = _BODY, topic: str = "shop.orders") -> Path:
    """Write a project with a publication `mine`, and return its folder."""
    return write_process(folder, _PUBLICATION.format(body=body, topic=topic))


def publishing_harness(
    connection: Connection, prefix: str, folder: Path, partitions: int = 1
) -> ProcessHarness:
    """Return the harness of the publication; `partitions`: of its topic."""
    harness = ProcessHarness(
        connection, prefix, write_publication(folder), "mine", state_dir=folder / "state"
    )
    with Admin(connection) as admin:
        ensure_topic(admin, f"{prefix}shop.orders", partitions, dry_run=False)
    return harness
