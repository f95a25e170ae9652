"""Runs a scan on a worker: returns errors as values, and switches garbage collection off during the scan."""

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
    connection: Connection,
    partition_name: str,
    work: Callable[[], _R],
    error_result: Callable[[CqrsError], _R],
) -> _R:
    """Return the result of `work`, or `error_result(error)` if `work` raises an error.

    `partition_name` is the start of the message of unexpected errors.
    """
    try:
        with without_garbage_collection():
            return work()
    except CqrsError as error:
        return error_result(error)
    except KafkaException as error:
        return error_result(unreachable_error(connection, error))
    except Exception as bug:
        traceback.print_exc()
        return error_result(
            CqrsError(f"{partition_name}: {type(bug).__name__}: {bug}", "Spark's log has the traceback")
        )
