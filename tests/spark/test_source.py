"""Batch reads on Spark against a real broker return exactly the committed records, for any cut into ranges."""

from typing import TYPE_CHECKING, Any

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.spark.order_topics import TIME, append, event, load, placed_event, read_options, write_transaction
from tests.support.commands import CommandRecord, command
from tests.support.harness import TopicHarness
from tests.support.transactional_topic import begin_transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def orders_with_aborts(connection: Connection, orders: Topics) -> Topics:
    """Orders on both partitions, with aborted transactions between committed transactions."""
    for partition in range(2):
        for round_number in range(6):
            orders_of_partition_0 = [
                partition + 2 * number for number in range(round_number * 10, round_number * 10 + 10)
            ]
            write_transaction(
                connection,
                orders.events,
                map(placed_event, orders_of_partition_0),
                partition,
                commit=round_number % 3 != 1,
            )
    return orders


def orders_of_partition_0(frame: "DataFrame") -> list[int]:
    """Return the orders of partition 0, in the order of their rows."""
    return orders_by_partition(frame)[0]


def orders_by_partition(frame: "DataFrame") -> list[list[int]]:
    """Return the orders of both partitions, each in the order of their rows."""
    orders: list[list[int]] = [[], []]
    for row in frame.select("partition", "subject").collect():
        orders[row.partition].append(int(row.subject.removeprefix("o-")))
    return orders


def committed_orders(partition: int) -> list[int]:
    return [partition + 2 * number for number in range(60) if number // 10 % 3 != 1]


@pytest.mark.parametrize("splits", [None, 1, 3, 8])
def test_any_split_reads_committed_records(
    session: "SparkSession", connection: Connection, orders_with_aborts: Topics, splits: int | None
) -> None:
    options = {} if splits is None else {"splits": splits}
    frame = load(session, read_options(connection, orders_with_aborts.prefix, **options))
    assert orders_by_partition(frame) == [committed_orders(0), committed_orders(1)]
    assert frame.rdd.getNumPartitions() == 2 * (splits or 1)


def test_read_ends_before_open_transaction(
    session: "SparkSession", connection: Connection, orders: Topics
) -> None:
    append(connection, orders.events, [placed_event(1)])
    writer = begin_transaction(connection, orders.events, [placed_event(2)])
    try:
        append(connection, orders.events, [placed_event(3)])
        assert orders_of_partition_0(load(session, read_options(connection, orders.prefix))) == [1]
    finally:
        writer.abort_transaction(10)


def test_event_is_read_as_written(session: "SparkSession", connection: Connection, orders: Topics) -> None:
    append(connection, orders.events, [event(7, "Placed", {"customer": "Änn", "more": 1})], partition=1)
    (row,) = (
        load(session, read_options(connection, orders.prefix))
        .selectExpr("*", "unix_millis(timestamp) ms")
        .collect()
    )
    assert row.asDict() | {"timestamp": None} == {
        "partition": 1,
        "offset": 0,
        "timestamp": None,
        "ms": TIME,
        "id": "0/7/0",
        "type": "order.Placed",
        "subject": "o-7",
        "version": 1,
        "causation": "c-7",
        "correlation": "k-7",
        "traceparent": None,
        "tracestate": None,
        "data": '{"customer":"Änn","more":1}',
    }


def test_fields_of_a_type_are_columns(
    session: "SparkSession", connection: Connection, orders: Topics
) -> None:
    lines = [event(2, "LineAdded", {"sku": "tea", "quantity": 3}), event(3, "Shipped", {})]
    append(connection, orders.events, [placed_event(1), *lines])
    for name in ("LineAdded", "order.LineAdded"):
        (row,) = load(session, read_options(connection, orders.prefix, type=name)).collect()
        assert (row.subject, row.sku, row.quantity, "data" in row) == ("o-2", "tea", 3, False)


def test_empty_topic_has_no_rows(session: "SparkSession", connection: Connection, orders: Topics) -> None:
    assert load(session, read_options(connection, orders.prefix)).count() == 0


def test_read_keeps_to_its_bounds(session: "SparkSession", connection: Connection, orders: Topics) -> None:
    for number in range(10):
        append(connection, orders.events, [placed_event(number)], time=TIME + 1000 * number)
    bounds = {"startingOffsets": '{"0": 2, "1": 0}', "endingOffsets": '{"0": 5, "1": 0}'}
    assert orders_of_partition_0(load(session, read_options(connection, orders.prefix, **bounds))) == [
        2,
        3,
        4,
    ]
    times = {"since": "2027-01-15T08:00:03Z", "until": "2027-01-15T08:00:06Z"}
    assert orders_of_partition_0(load(session, read_options(connection, orders.prefix, **times))) == [3, 4, 5]
    assert (
        orders_of_partition_0(
            load(session, read_options(connection, orders.prefix, startingOffsets="latest"))
        )
        == []
    )


@pytest.fixture
def account_options(single_bank: TopicHarness) -> dict[str, Any]:
    """The options of a read of accounts with three commands and their outcomes."""
    single_bank.send(
        command("bank_account.Deposit", "a", "x", {"amount": 5}),
        CommandRecord(b"?", b"a"),
        command("bank_account.Open", "a", "y", {"owner": "ann"}, expectedversion=7, causationid="z"),
        command("bank_account.Deposit", "a", "w", {"amount": "much"}),
    )
    outcomes = [value or b"" for value, *_ in single_bank.expected_decisions().outcomes]
    append(single_bank.connection, single_bank.topics.outcomes, outcomes)
    return read_options(single_bank.connection, single_bank.topics.prefix, aggregate="bank_account")


def test_commands_are_all_rows(session: "SparkSession", account_options: dict[str, Any]) -> None:
    rows = load(session, {**account_options, "topic": "commands"}).orderBy("offset").collect()
    assert [(row.id, row.expected, row.causation, row.data) for row in rows] == [
        ("x", None, None, '{"amount": 5}'),
        (None, None, None, None),
        ("y", "7", "z", '{"owner": "ann"}'),
        ("w", None, None, '{"amount": "much"}'),
    ]
    deposits = load(session, {**account_options, "topic": "commands", "type": "Deposit"}).collect()
    assert [(row.id, row.amount) for row in deposits] == [("x", 5)]


def test_outcomes_are_rows(session: "SparkSession", account_options: dict[str, Any]) -> None:
    rows = load(session, {**account_options, "topic": "outcomes"}).orderBy("offset").collect()
    assert [
        (row.status, row.reason, row.code, row.expected, row.causation, row.data_offset) for row in rows
    ] == [
        ("rejected", "BUSINESS_RULE", "NOT_OPEN", None, "x", 0),
        ("failed", "INVALID_ENVELOPE", None, None, None, 1),
        ("rejected", "VERSION_CONFLICT", None, "7", "y", 2),
        ("failed", "INVALID_PAYLOAD", None, None, "w", 3),
    ]
