"""`cqrs warm`: makes Spark and the embedded Kafka start faster on this machine."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import option


@command(
    app, "warm", examples=["cqrs warm", "cqrs warm --executors", "cqrs warm --no-kafka", "cqrs warm -o json"]
)
def warm_command(
    cli: Cli,
    kafka: Annotated[
        bool, option("--kafka/--no-kafka", "Fetch the embedded Kafka, and write its archive, too.")
    ] = True,
    executors: Annotated[
        bool, option("--executors", "Write the archive of a cluster's executors, too.")
    ] = False,
) -> None:
    """Make every later start of Spark and of the embedded Kafka faster on this machine.

    Spark then takes two thirds of the processor time to start, the embedded Kafka little more than half. Writes a class
    data archive of each, 150 MB and 50 MB, to the user's cache (CQRS_CACHE_DIR, else cqrs in XDG_CACHE_HOME), for the
    Java, the PySpark and the Kafka that commands use. This takes most of a minute, once. An archive that is there
    already is left as it is; after a new Java or PySpark call it again. Whoever builds an image calls it there, with
    --no-kafka where the brokers are elsewhere.

    With --executors it writes a third one, 60 MB, for the executors of a standalone cluster: call it so on each of its
    machines, and on the driver's. All need the cache, the Java and the PySpark at the same place.
    """
    from cqrs_cli.jobs.warm import warm_executors, warm_spark
    from cqrs_cli.kafka.embedded.warm import warm_broker
    from cqrs_cli.system.java import find_java

    java = find_java()
    _warm(cli, "Spark", partial(warm_spark, java), "Spark's JVM: half a minute")
    if executors:
        _warm(cli, "an executor", partial(warm_executors, java), "executors")
    if kafka:
        _warm(cli, "the embedded Kafka", partial(warm_broker, java))


def _warm(cli: Cli, program: str, write: Callable[[Callable[[str], None]], Path], what: str = "") -> None:
    with cli.working(f"writing the class data archive of {what or program}"):
        archive = write(cli.note)
    size = archive.stat().st_size
    text = f"{program} starts from {archive}, {size >> 20} MiB"
    cli.result({"program": program, "archive": archive, "bytes": size}, text)
