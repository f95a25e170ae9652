"""The address at which the tasks of a job reach the driver."""

from typing import TYPE_CHECKING

from cqrs_cli.errors import UsageError
from cqrs_cli.jobs.engine.session import session_property
from cqrs_cli.telemetry.listener import REPORTS_PORT

if TYPE_CHECKING:
    from pyspark import SparkContext


def driver_address(context: "SparkContext") -> str:
    """Return the driver's address for progress reports: `10.0.0.5:9999`, or the host alone if the property
    `REPORTS_PORT` is not set. The host is loopback if all workers are on this machine.

    Raises `UsageError` for an invalid port.
    """
    host = session_property(context, "spark.driver.host") or "127.0.0.1"
    port = session_property(context, REPORTS_PORT)
    if port is not None and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise UsageError(f"--conf {REPORTS_PORT}={port}: that is not a port", "use a port from 1 to 65535")
    return f"{host}:{port}" if port else host
