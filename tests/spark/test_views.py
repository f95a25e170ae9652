"""Views of a project's topics, for SQL."""

from typing import TYPE_CHECKING

import pytest

import cqrs_cli as cqrs
from cqrs_cli import registry
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import UsageError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.spark import views
from cqrs_cli.spark.view_names import view_reads
from tests.spark.order_topics import append, event, placed_event
from tests.support import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_views_are_topics_and_types() -> None:
    reads = view_reads([registry.load("payment", "aggregates", ROOT)])
    assert reads == {
        "payment_commands": {"aggregate": "payment", "topic": "commands"},
        "payment_events": {"aggregate": "payment", "topic": "events"},
        "payment_outcomes": {"aggregate": "payment", "topic": "outcomes"},
        "payment_Requested": {"aggregate": "payment", "type": "Requested"},
        "payment_Paid": {"aggregate": "payment", "type": "Paid"},
        "payment_CalledOff": {"aggregate": "payment", "type": "CalledOff"},
    }


class Note(cqrs.Command):
    pass


class Events(cqrs.Event):
    pass


class State(cqrs.Event):
    pass


class Notes(cqrs.State):
    pass


def decide(command: Note, notes: Notes) -> list[Events | State]:
    return [Events()]


def evolve(notes: Notes, event: Events | State) -> Notes:
    return notes


def test_type_named_like_another_view() -> None:
    aggregate = Aggregate.of("notes", cqrs.Decider(decide, evolve, initial=Notes()))
    assert list(view_reads([aggregate])) == [
        "notes_commands",
        "notes_events",
        "notes_outcomes",
        "notes_Events_event",
        "notes_State_event",
    ]


@pytest.mark.kafka
@pytest.mark.spark
def test_views_answer_sql(session: "SparkSession", connection: Connection, orders: Topics) -> None:
    common = {"bootstrapServer": connection.bootstrap_server, "prefix": orders.prefix}
    names = views(session, ROOT, only=["order_events", "order_LineAdded"], **common)
    assert names == ["order_events", "order_LineAdded"]
    for units in (3, 4):
        lines = [placed_event(1), event(2, "LineAdded", {"sku": "tea", "quantity": units})]
        append(connection, orders.events, lines)
    (row,) = session.sql("SELECT sum(quantity) q, count(DISTINCT sku) s FROM order_lineadded").collect()
    assert (row.q, row.s, session.table("order_events").count()) == (7, 1, 4)


def test_unknown_view_is_named() -> None:
    with pytest.raises(UsageError, match="there is no view 'order_Plcaed'; there are bank_account_commands"):
        views(None, ROOT, only=["order_Plcaed"])  # type: ignore[arg-type]  # it is not asked
