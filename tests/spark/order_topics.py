"""Topics of orders, written by the tests, for reads in Spark."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.connection.connection import Connection
from tests.support import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: A time in ms.
TIME = 1_800_000_000_000


def event(number: int, name: str, data: object, *, aggregate: str = "order", time: int = TIME) -> bytes:
    """Return an event of a new aggregate. `number` distinguishes it from other events."""
    return encode_json(
        {
            "specversion": "1.0",
            "id": f"0/{number}/0",
            "source": f"/cqrs/{aggregate}",
            "type": f"{aggregate}.{name}",
            "subject": f"o-{number}",
            "time": rfc3339(time),
            "causationid": f"c-{number}",
            "correlationid": f"k-{number}",
            "aggregateversion": 1,
            "eventindex": 0,
            "eventcount": 1,
            "data": data,
        }
    )


def placed_event(number: int) -> bytes:
    return event(number, "Placed", {"customer": f"ann-{number}"})


def append(
    connection: Connection, topic: str, values: Iterable[bytes], partition: int = 0, time: int = TIME
) -> None:
    """Write records with one timestamp without a transaction, and wait for their acknowledgement."""
    append_timed(connection, topic, [(time, value) for value in values], partition)


def append_timed(
    connection: Connection, topic: str, records: Iterable[tuple[int, bytes]], partition: int = 0
) -> None:
    """Write records, each with its timestamp in ms."""
    producer = clients.producer(connection)
    headers: Any = HEADERS
    for time, value in records:
        producer.produce(topic, value, b"k", partition, headers=headers, timestamp=time)
    assert producer.flush(30) == 0


def write_transaction(
    connection: Connection, topic: str, values: Iterable[bytes], partition: int, commit: bool
) -> None:
    """Write records in a transaction, and commit or abort it."""
    producer = clients.producer(connection, transactional_id=f"{topic}.{partition}")
    producer.init_transactions(10)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, b"k", partition)
    assert producer.flush(30) == 0
    if commit:
        producer.commit_transaction(10)
    else:
        producer.abort_transaction(10)


def read_options(connection: Connection, prefix: str, **options: Any) -> dict[str, Any]:
    """Return the options of a read of these orders."""
    common = {"project": str(ROOT), "bootstrapServer": connection.bootstrap_server, "prefix": prefix}
    return {"aggregate": "order", **common, **options}


def load(spark: "SparkSession", options: dict[str, Any]) -> "DataFrame":
    return spark.read.format("cqrs").options(**options).load()
