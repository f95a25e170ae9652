"""The wrapper of a scan on a worker: it returns errors as results, and switches garbage collection off."""

import traceback
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaException

from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.clients import unreachable_error
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.system.memory import without_garbage_collection

_R = TypeVar("_R")


def guarded(
    connection: Connection, place: str, work: Callable[[], _R], failed: Callable[[CqrsError], _R]
) -> _R:
    """Return the result of `work`, or `failed(error)` if it raises. `place` is the partition, for unexpected errors."""
    try:
        with without_garbage_collection():
            return work()
    except CqrsError as error:
        return failed(error)
    except KafkaException as error:
        return failed(unreachable_error(connection, error))
    except Exception as bug:
        traceback.print_exc()
        return failed(CqrsError(f"{place}: {type(bug).__name__}: {bug}", "Spark's log has the traceback"))
