"""Reads that cannot be correct end with a one-line error that contains no secret."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.spark.order_topics import append, event, load, placed_event, read_options
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.topic_loss import delete_records_before, recreate_topics

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def error_line(session: "SparkSession", options: dict[str, Any]) -> str:
    """Return our line in the message of a read that fails."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as raised:
        load(session, options).collect()
    message = str(raised.value)
    assert "Traceback" not in message and "site-packages" not in message
    (line,) = [line for line in message.splitlines() if "cqrs_cli.errors." in line]
    return line.partition("cqrs_cli.errors.")[2]


@pytest.mark.parametrize(
    ("wrong_options", "line"),
    [
        ({"aggregate": "oder"}, "UsageError: no aggregate 'oder'; did you mean order?"),
        ({"type": "Plcaed"}, "UsageError: order has no event 'Plcaed'; known: Placed, LineAdded"),
        ({"topic": "commands", "type": "Placed"}, "UsageError: order has no command 'Placed'; known: Place,"),
        ({"spilts": 3}, "UsageError: unknown option 'spilts'; did you mean splits?"),
        ({"maxRecordsPerBatch": 3}, "UsageError: option maxRecordsPerBatch: a batch has no such option"),
        ({"startingOffsets": '{"0": 0}'}, "UsageError: option startingOffsets: "),
        ({"endingOffsets": '{"0": 0, "1": 9}'}, "UsageError: option endingOffsets: "),
        ({"prefix": "missing."}, "ConfigurationError: topic missing.order.events does not exist"),
        ({"commandConfig": "/none"}, "ConfigurationError: /none cannot be read"),
    ],
)
def test_wrong_options_are_one_line(
    session: "SparkSession", connection: Connection, orders: Topics, wrong_options: dict[str, Any], line: str
) -> None:
    assert error_line(session, read_options(connection, orders.prefix) | wrong_options).startswith(line)


@pytest.mark.parametrize(
    ("value", "wrong_options", "text"),
    [
        (b"?", {}, "offset 1: JSON is malformed"),
        (event(3, "Placed", {}).replace(b'"subject"', b'"object"'), {}, "missing required field `subject`"),
        (event(3, "Placed", {"n": 1}), {"type": "Placed"}, "missing required field `customer`"),
        (event(3, "Gone", {}), {"type": "Placed"}, "the code knows no event order.Gone"),
        (
            event(3, "LineAdded", {"sku": "a", "quantity": 2**64}),
            {"type": "LineAdded"},
            "quantity does not fit",
        ),
        (event(3, "Placed", {"customer": "?"}).replace(b"?", b"\xff"), {}, "can't decode"),
    ],
    ids=["no JSON", "no subject", "no field", "no class", "too large", "no text"],
)
def test_unreadable_event_names_its_offset(
    session: "SparkSession",
    connection: Connection,
    orders: Topics,
    value: bytes,
    wrong_options: dict[str, Any],
    text: str,
) -> None:
    append(connection, orders.events, [placed_event(1), value])
    line = error_line(session, read_options(connection, orders.prefix, **wrong_options))
    assert f"{orders.events} partition 0 offset 1: " in line and text in line


def test_user_schema_is_refused(session: "SparkSession", connection: Connection, orders: Topics) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="the aggregate defines the columns"):
        session.read.format("cqrs").options(**read_options(connection, orders.prefix)).schema(
            "id string"
        ).load().collect()


def test_secrets_stay_out_of_sight(
    session: "SparkSession", spark: "SparkContext", connection: Connection, orders: Topics, tmp_path: Path
) -> None:
    """Neither the plan nor Spark's log nor an error contains the password of the properties file."""
    from cqrs_cli.jobs.engine.session import LOG_PROPERTY

    file = tmp_path / "client.properties"
    file.write_text("ssl.keystore.password=s3cret\nclient.id=joins\n")
    append(connection, orders.events, [placed_event(1), event(2, "Gone", {})])
    frame = load(session, read_options(connection, orders.prefix, commandConfig=str(file)))
    assert frame.count() == 2
    plan = frame._jdf.queryExecution().toString()
    line = error_line(
        session, read_options(connection, orders.prefix, commandConfig=str(file), type="Placed")
    )
    log = Path(spark.getConf().get(LOG_PROPERTY) or "").read_text()
    assert "s3cret" not in plan + line + log


def test_topic_recreated_during_read_is_refused(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """A read that was planned on the old topic fails, although its offsets exist again."""
    from cqrs_cli.spark.source import CqrsDataSource

    harness = TopicHarness(connection, prefix, tmp_path, "order")
    append(connection, harness.topics.events, map(placed_event, range(3)))
    source = CqrsDataSource({key: str(value) for key, value in read_options(connection, prefix).items()})
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    assert sum(batch.num_rows for batch in reader.read(partition)) == 3
    recreate_topics(harness, "events")
    append(connection, harness.topics.events, map(placed_event, range(3)))
    with pytest.raises(ContradictionError, match="deleted and recreated"):
        list(reader.read(partition))


def test_deleted_records_are_not_skipped(connection: Connection, prefix: str, tmp_path: Path) -> None:
    from cqrs_cli.errors import UnavailableError
    from cqrs_cli.spark.source import CqrsDataSource

    harness = TopicHarness(connection, prefix, tmp_path, "order")
    append(connection, harness.topics.events, map(placed_event, range(3)))
    source = CqrsDataSource({key: str(value) for key, value in read_options(connection, prefix).items()})
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    delete_records_before(harness, "events", 2)
    with pytest.raises(UnavailableError, match="records were deleted while they were read"):
        list(reader.read(partition))


def test_code_travels_with_the_read(
    session: "SparkSession", connection: Connection, orders: Topics, tmp_path: Path
) -> None:
    """The task uses the project's code from the time of planning, on any machine."""
    from cqrs_cli.spark.source import CqrsDataSource

    shutil.copytree(ROOT / "aggregates", tmp_path / "aggregates")
    (tmp_path / "cqrs.toml").touch()
    code = tmp_path / "aggregates/order.py"
    code.write_text(
        code.read_text().replace("    sku: str\n    quantity: int\n", "    sku: str\n    units: int = 7\n")
    )
    append(connection, orders.events, [event(1, "LineAdded", {"sku": "tea"})])
    options = read_options(connection, orders.prefix, type="LineAdded", project=str(tmp_path))
    source = CqrsDataSource({key: str(value) for key, value in options.items()})
    reader = source.reader(source.schema())
    parts = reader.partitions()
    shutil.rmtree(tmp_path / "aggregates")
    read = session.sparkContext.parallelize(parts, 1).flatMap(
        lambda partition: [row for batch in reader.read(partition) for row in batch.to_pylist()]
    )
    assert [(row["sku"], row["units"]) for row in read.collect()] == [("tea", 7)]
