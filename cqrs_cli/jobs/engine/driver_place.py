"""The place at which the tasks of a job reach its driver."""

from typing import TYPE_CHECKING

from cqrs_cli.errors import UsageError
from cqrs_cli.jobs.engine.session import setting
from cqrs_cli.telemetry.listener import REPORTS_PORT

if TYPE_CHECKING:
    from pyspark import SparkContext


def driver_place(context: "SparkContext") -> str:
    """The place at which workers reach this process: loopback, if they are on this machine, and the port if one is
    fixed. Raises `UsageError` if that is not a port.
    """
    host, port = setting(context, "spark.driver.host") or "127.0.0.1", setting(context, REPORTS_PORT)
    if port is not None and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise UsageError(f"--conf {REPORTS_PORT}={port}: that is not a port", "from 1 to 65535")
    return f"{host}:{port}" if port else host
