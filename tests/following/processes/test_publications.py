"""Publications: events become records of a public topic, each once and in order."""

from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import cqrs_cli as cqrs
from aggregates.order import Placed, Shipped
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.processes.load import load_process
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.testing import process
from tests.following.processes.process_harness import (
    ForkedRun,
    ProcessHarness,
    order_placed,
    read_records,
)
from tests.following.projections.projector_harness import event_record
from tests.support.checkout import verify_reactions
from tests.support.publications import publishing_harness, write_publication


@pytest.fixture
def publishing(connection: Connection, prefix: str, tmp_path: Path) -> ProcessHarness:
    return publishing_harness(connection, prefix, tmp_path, partitions=2)


def public_events(harness: ProcessHarness) -> list[dict[str, Any]]:
    """Return the committed records of the public topic, by partition."""
    topic = f"{harness.prefix}shop.orders"
    return [
        {**msgspec.json.decode(record.value or b""), "key": record.key}
        for partition in range(2)
        for record in read_records(harness.connection, topic, partition)
    ]


def versions_by_key(harness: ProcessHarness) -> dict[str, list[int]]:
    versions: dict[str, list[int]] = defaultdict(list)
    for document in public_events(harness):
        versions[document["subject"]].append(document["data"]["version"])
    return versions


@pytest.mark.kafka
def test_public_events_are_cloud_events(publishing: ProcessHarness) -> None:
    publishing.place_orders(3, 1)
    publishing.run_once(from_beginning=True)
    time = 1_800_000_000_003
    assert public_events(publishing) == [
        {
            "specversion": "1.0",
            "id": f"mine/{publishing.events}/0/3/0@{time}/0",
            "source": "/cqrs/process/mine",
            "type": "Placed",
            "subject": "o-0-3",
            "time": "2027-01-15T08:00:00.003Z",
            "causationid": "0/3/0",
            "correlationid": "c-3",
            "data": {"version": 1},
            "key": b"o-0-3",
        }
    ]


@pytest.mark.kafka
@pytest.mark.covers("reacted-once")
@pytest.mark.parametrize("point", ["decide.after:2", "produce.first:3", "flush.after:3", "commit.after:3"])
def test_killed_publications_lose_nothing(publishing: ProcessHarness, point: str) -> None:
    """Each event is published once, and the events of a key are in order."""
    publishing.write_events(
        [event_record(number, f"o-{number % 5}", 1 + number // 5, Placed("ann"), 0) for number in range(40)]
    )
    run = ForkedRun(publishing.plan(from_beginning=True), f"{point}:kill")
    assert run.was_killed()
    publishing.run_once(from_beginning=True)
    assert versions_by_key(publishing) == {f"o-{key}": list(range(1, 9)) for key in range(5)}
    assert verify_reactions(publishing).listed_violations == []


@pytest.mark.kafka
def test_wrong_data_stop_a_publication(publishing: ProcessHarness, tmp_path: Path) -> None:
    write_publication(tmp_path, "yield cqrs.PublicEvent('x', at.aggregate_id, object())")
    publishing.write_events(map(order_placed, range(2)))
    error = publishing.run_once_error(from_beginning=True)
    assert "process mine returned invalid public events for order.Placed" in error.message
    assert "no JSON form" in error.message and public_events(publishing) == []


@pytest.mark.kafka
def test_missing_public_topic_is_an_error(connection: Connection, prefix: str, tmp_path: Path) -> None:
    harness = ProcessHarness(connection, prefix, write_publication(tmp_path), "mine")
    with pytest.raises(ConfigurationError, match=r"shop\.orders does not exist"):
        harness.plan()


@pytest.mark.parametrize("topic", ["order.commands", "payment.events", "process.x.positions", "a b", ""])
def test_own_topics_are_not_public(tmp_path: Path, topic: str) -> None:
    root = write_publication(tmp_path, topic=topic)
    with pytest.raises(ConfigurationError, match="cannot be the topic of a publication"):
        load_process("mine", root, "aggregates")


def test_publications_have_specifications() -> None:
    def publish(event: Shipped, at: cqrs.Recorded[Any]) -> list[cqrs.PublicEvent]:
        return [cqrs.PublicEvent("shipped", at.aggregate_id, {"at": at.time.year})]

    publication = cqrs.Publication(publish, topic="shop.orders")
    expected = cqrs.PublicEvent("shipped", "id-1", {"at": 2000})
    process(publication).when(Shipped(), time=datetime(2000, 1, 1, tzinfo=UTC)).sends(expected)
