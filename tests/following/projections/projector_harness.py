"""Projecting without a broker: logs are lists, which fake tails read for the projectors."""

import random
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqlalchemy import Engine, select, text

from aggregates.order import Cancelled, Deleted, LineAdded, Placed, Shipped
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.following.plan import EventsTopic
from cqrs_cli.following.projections.database import open_database, read_only, url_without_password
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.control import POSITIONS
from cqrs_cli.following.projections.load import LoadedProjection, load_projection
from cqrs_cli.following.projections.plan import ProjectionPlan, ProjectorResult
from cqrs_cli.following.projections.positions import Position, take_over_positions
from cqrs_cli.following.projections.projector import Projector
from cqrs_cli.following.projections.runner import run_observed
from cqrs_cli.following.projections.tables import create_control_tables, create_tables
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.keyspace.key_space import KeySpace
from tests.support import ROOT

Logs = Mapping[EventPartition, list[Record]]

Events = Sequence[Any]

TOPIC = "order.events"


def event_partition(partition: int) -> EventPartition:
    return EventPartition("order", TOPIC, partition)


def recent_orders() -> LoadedProjection:
    return load_projection("recent_orders", ROOT, "aggregates")


def event_record(
    offset: int, subject: str, version: int, event: Event, partition: int = 0, aggregate: str = "order"
) -> Record:
    """Return an event of an order as in the log. Its time is its offset."""
    reserved = type(event) is Erased
    value = {
        "specversion": "1.0",
        "id": f"{partition}/{offset}/0",
        "source": f"/cqrs/{aggregate}",
        "type": f"{'cqrs' if reserved else aggregate}.{type(event).__name__}",
        "subject": subject,
        "time": rfc3339(1_800_000_000_000 + offset),
        "causationid": f"c-{offset}",
        "correlationid": f"c-{offset}",
        "aggregateversion": version,
        "eventindex": 0,
        "eventcount": 1,
        "data": event,
    }
    return Record(offset, 1_800_000_000_000 + offset, subject.encode(), encode_json(value))


def random_log(partition: int, count: int, customers: int = 5, seed: int = 1) -> list[Record]:
    """Return orders of a few customers on one partition. Offsets have gaps, as transactions cause them."""
    choice = random.Random(f"{seed}/{partition}")
    records: list[Record] = []
    versions: dict[str, int] = {}
    offset = 0
    while len(records) < count:
        offset += choice.choice([1, 1, 1, 2])
        subject = f"o-{partition}-{choice.randrange(count // 3 + 1)}"
        versions[subject] = version = versions.get(subject, 0) + 1
        later_events: list[Event] = [Shipped(), Cancelled("late"), LineAdded("tea", 1), Deleted()]
        event = Placed(f"c{choice.randrange(customers)}") if version == 1 else choice.choice(later_events)
        records.append(event_record(offset, subject, version, event, partition))
    return records


class ListTail:
    """Reads a log in a list, at most `batch` records at a time."""

    def __init__(self, log: list[Record], start: int, batch: int) -> None:
        self._log = [record for record in log if record.offset >= start]
        self._batch, self._position = batch, start
        self.last_record: Record | None = None

    def poll(self, limit: int) -> tuple[list[Record], int]:
        limit = min(limit, self._batch)
        records, self._log = self._log[:limit], self._log[limit:]
        if records:
            self.last_record = records[-1]
            self._position = records[-1].offset + 1
        return records, self._position

    def close(self) -> None: ...


def make_plan(
    logs: Logs, database: DatabaseAddress, owner: str = "me", name: str = "recent_orders"
) -> ProjectionPlan:
    """Return the plan that projects all records of the logs."""
    targets = {partition: log[-1].offset + 1 if log else 0 for partition, log in logs.items()}
    events = {TOPIC: EventsTopic("id-1", len(logs), KeySpace.fixed(len(logs), "murmur2"))}
    arguments = name, sorted(logs), database, owner, targets
    return ProjectionPlan(Connection("h:1"), "aggregates", ROOT, "murmur2", events, *arguments)


def take_over(plan: ProjectionPlan, loaded: LoadedProjection | None = None) -> None:
    """Take ownership. With `loaded`, create the tables first."""
    with open_engine(plan.database) as engine:
        if loaded is not None:
            create_control_tables(engine)
            create_tables(engine, loaded)
        with engine.begin() as db:
            take_over_positions(db, plan, dict.fromkeys(plan.sources, 0))


@contextmanager
def open_engine(database: DatabaseAddress) -> Iterator[Engine]:
    engine = open_database(database)
    try:
        yield engine
    finally:
        engine.dispose()


def run_projectors(
    plan: ProjectionPlan,
    logs: Logs,
    loaded: LoadedProjection,
    batch: int = 7,
    tail: Callable[[EventPartition, int], Any] | None = None,
    notes: list[str] | None = None,
) -> list[ProjectorResult]:
    """Project all partitions concurrently, with a thread each, until their logs end. Return the results."""
    reported: list[str] = [] if notes is None else notes

    def tail_of(partition: EventPartition, position: Position) -> Any:
        if tail is not None:
            return tail(partition, position.next_offset)
        return ListTail(logs[partition], position.next_offset, batch)

    with open_engine(plan.database) as engine:
        stopping = threading.Event()
        projectors = [
            Projector(plan, partition, loaded, engine, tail_of, stopping) for partition in plan.sources
        ]
        threads = [
            threading.Thread(target=run_observed, args=(projector, reported.append))
            for projector in projectors
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [projector.result for projector in projectors if projector.result]


def query_rows(database: DatabaseAddress, query: str) -> list[tuple[Any, ...]]:
    with open_engine(database) as engine, read_only(engine).connect() as db:
        return [tuple(row) for row in db.execute(text(query))]


def read_tables(database: DatabaseAddress) -> tuple[dict[str, tuple[str, str]], dict[str, int]]:
    """Return the orders and the customers in the tables."""
    orders = query_rows(database, "SELECT order_id, customer, status FROM recent_orders")
    customers = query_rows(database, "SELECT customer, orders FROM customers")
    return {id: (customer, status) for id, customer, status in orders}, dict(customers)


def expected_tables(logs: Logs) -> tuple[dict[str, tuple[str, str]], dict[str, int]]:
    """Return the expected orders and customers, computed log by log."""
    from cqrs_cli import registry
    from cqrs_cli.core.recorded import read_recorded_event

    aggregate = registry.load("order", "aggregates", ROOT)
    orders: dict[str, tuple[str, str]] = {}
    customers: dict[str, int] = {}
    for partition, log in logs.items():
        for record in log:
            recorded = read_recorded_event(
                aggregate, record.value, partition.topic, partition.partition, record.offset
            )
            match recorded.event:
                case Placed(customer):
                    orders[recorded.aggregate_id] = customer, "placed"
                    customers[customer] = customers.get(customer, 0) + 1
                case Shipped() | Cancelled() | Deleted():
                    customer, _ = orders[recorded.aggregate_id]
                    orders[recorded.aggregate_id] = customer, type(recorded.event).__name__.lower()
    return orders, customers


def with_project_function(
    loaded: LoadedProjection, project: Callable[..., None], **changes: Any
) -> LoadedProjection:
    """Return the projection with another function for the same tables."""
    return replace(loaded, projection=replace(loaded.projection, project=project, **changes))


def error_texts(results: list[ProjectorResult]) -> list[str]:
    return [str(result.error) for result in results if result.error is not None]


def next_offsets(database: DatabaseAddress) -> dict[int, int]:
    query = select(POSITIONS.c.partition, POSITIONS.c.next_offset)
    with open_engine(database) as engine, read_only(engine).connect() as db:
        return dict(tuple(row) for row in db.execute(query))


def command_line_url(database: DatabaseAddress) -> str:
    """Return the URL that users write after --to."""
    return re.sub(r"\+\w+", "", url_without_password(database), count=1)
