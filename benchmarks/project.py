"""Projection rate: how fast `cqrs project` writes events to each database, a row for each event."""

import argparse
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.environment import AGGREGATES, Environment, new_environment
from benchmarks.report import report
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.topics.topics import Topics

#: The example that writes a row for each event.
PROJECTIONS = Path(AGGREGATES).parent / "projections"


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=400_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--runs", type=int, default=3)
    arguments = options.parse_args()
    rows = []
    with ExitStack() as stack:
        environment = stack.enter_context(new_environment())
        shutil.copytree(PROJECTIONS, environment.root / "projections")
        for other in (environment.root / "aggregates").glob("[a-z]*.py"):
            if other.stem != "bank_account":
                other.unlink()
        (environment.root / "projections/recent_orders.py").unlink()
        write_deposits(
            environment,
            environment.topics("bank_account", arguments.partitions),
            arguments.events,
            arguments.partitions,
        )
        for kind, new_database in databases(stack).items():
            for run in range(arguments.runs):
                summary = environment.cqrs("project", "all_events", "--once", "--to", new_database(run))
                assert summary["events"] == arguments.events, summary
                rows.append({"what": kind, "events_per_s": summary["events"] / summary["seconds"]})
    report("project", rows)


def databases(stack: ExitStack) -> dict[str, Callable[[int], str]]:
    """Return for each kind a function that returns the URL of a new database; servers only if they are installed."""
    from tests.support.mariadb import mariadb, server_programs
    from tests.support.postgres import binaries, postgres

    database_factories: dict[str, Callable[[int], str]] = {"SQLite": lambda run: f"sqlite:///run-{run}.db"}
    database_factories["DuckDB"] = lambda run: f"duckdb:///run-{run}.duckdb"
    if binaries() is not None:
        postgres_server = stack.enter_context(postgres())
        database_factories["PostgreSQL"] = lambda run: postgres_server.make_database()
    if server_programs() is not None:
        mariadb_server = stack.enter_context(mariadb())
        database_factories["MariaDB"] = lambda run: mariadb_server.make_database()
    return database_factories


def write_deposits(environment: Environment, topics: Topics, events: int, partitions: int) -> None:
    """Write events as an owner writes them, without their commands."""
    producer = clients.producer(environment.connection, linger_ms=50, queue_buffering_max_messages=1_000_000)
    for number in range(events):
        partition, version = number % partitions, number // 20_000 + 1
        value = (
            f'{{"specversion":"1.0","id":"{partition}/{number}/0","source":"/cqrs/bank_account",'
            f'"type":"bank_account.Deposited","subject":"acc-{number % 20_000}","time":"2026-11-21T01:02:03.456Z",'
            f'"causationid":"c-{number}","correlationid":"c-{number}","aggregateversion":{version},'
            '"eventindex":0,"eventcount":1,"data":{"amount":5}}'
        )
        headers: Any = HEADERS
        producer.produce(
            topics.events, value.encode(), f"acc-{number % 20_000}".encode(), partition, headers=headers
        )
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


if __name__ == "__main__":
    main()
