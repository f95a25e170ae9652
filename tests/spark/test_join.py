"""The join of the documentation: its rows are correct, and its state stays within three days of records."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.spark.order_topics import append_timed, event, read_options
from tests.support.eventlog import create_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

DAY = 86_400_000
START = 1_800_000_000_000

#: Orders come every two hours for twenty days. Each fourth is not paid, each fifth after four days, the others after
#: one.
ORDERS = 12 * 20


def paid_after(number: int) -> int | None:
    """Return the ms from the order to its payment; None if the order is not paid."""
    return None if number % 4 == 0 else 4 * DAY if number % 5 == 0 else DAY


def placed_at(number: int) -> int:
    return START + number * DAY // 12


@pytest.fixture
def common_options(connection: Connection, prefix: str) -> dict[str, Any]:
    """The options of reads of the orders and payments."""
    create_topics(connection, Topics("order", prefix), partitions=1)
    create_topics(connection, Topics("payment", prefix), partitions=1)
    orders = [
        (placed_at(number), event(number, "Placed", {"customer": "ann"}, time=placed_at(number)))
        for number in range(ORDERS)
    ]
    payments = [
        (time, event(number, "Paid", {"reference": "tr"}, aggregate="payment", time=time))
        for number in range(ORDERS)
        if (time := placed_at(number) + (paid_after(number) or 0)) > placed_at(number)
    ]
    append_timed(connection, f"{prefix}order.events", orders)
    append_timed(connection, f"{prefix}payment.events", sorted(payments))
    return read_options(connection, prefix, maxRecordsPerBatch=40)


def stream(
    session: "SparkSession",
    common_options: dict[str, Any],
    aggregate: str,
    type: str,
    key: str,
    time_column: str,
) -> "DataFrame":
    reader = session.readStream.format("cqrs").options(
        **{**common_options, "aggregate": aggregate, "type": type}
    )
    return (
        reader.load()
        .selectExpr(f"subject AS {key}", f"timestamp AS {time_column}")
        .withWatermark(time_column, "1 hour")
    )


@pytest.mark.nightly
def test_join_keeps_three_days_of_state(
    session: "SparkSession", common_options: dict[str, Any], tmp_path: Path
) -> None:
    from pyspark.sql import functions as F

    session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    orders = stream(session, common_options, "order", "Placed", "order_id", "placed_at")
    payments = stream(session, common_options, "payment", "Paid", "payment_id", "paid_at")
    in_time = F.expr("payment_id = order_id AND paid_at BETWEEN placed_at AND placed_at + INTERVAL 3 DAYS")
    writer = orders.join(payments, in_time).writeStream.format("json")
    paths = {"checkpointLocation": str(tmp_path / "checkpoint"), "path": str(tmp_path / "rows")}
    query = writer.options(**paths).trigger(availableNow=True).start()
    query.awaitTermination()
    paid = sorted(row.order_id for row in session.read.json(str(tmp_path / "rows")).collect())
    assert paid == sorted(f"o-{number}" for number in range(ORDERS) if paid_after(number) == DAY)
    operators = [json.loads(progress.json)["stateOperators"][0] for progress in query.recentProgress]
    assert sum(operator["numRowsDroppedByWatermark"] for operator in operators) == 0
    rows = [operator["numRowsTotal"] for operator in operators]
    assert max(rows) < 250  # of 420: a watermark's three days, and two batches of 40 from each topic
    assert rows[-1] < max(rows) and "rocksdbCommitCheckpointLatency" in str(operators[-1]["customMetrics"])
