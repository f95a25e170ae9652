"""`cqrs warm`: make Spark and the embedded Kafka start faster on this machine."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import argument, completion_from
from cqrs_cli.errors import UsageError
from cqrs_cli.extras import require

#: The programs that start faster from a class data archive.
PROGRAMS = ("spark", "kafka", "executors")


@command(app, "warm", examples=["cqrs warm", "cqrs warm spark executors"])
def warm_command(
    cli: Cli,
    programs: Annotated[
        list[str] | None,
        argument(
            "spark|kafka|executors", "Default: spark and kafka.", complete=completion_from(lambda _: PROGRAMS)
        ),
    ] = None,
) -> None:
    """Make later starts of Spark and of the embedded Kafka faster on this machine.

    For each it writes a JVM class data archive to the user's cache, or to CQRS_CACHE_DIR. Call it again after an
    upgrade of Java, PySpark or Kafka. In an image that does not start the embedded Kafka, call `cqrs warm spark`.

    `executors` is for the executors of a standalone cluster: call it on each worker machine and on the driver's.
    docs/install.md lists sizes and times.
    """
    for program in programs or ():
        if program not in PROGRAMS:
            raise UsageError(f"there is no program {program!r} to warm", f"there are: {', '.join(PROGRAMS)}")
    from cqrs_cli.jobs.warm import warm_executors, warm_spark
    from cqrs_cli.kafka.embedded.warm import warm_broker
    from cqrs_cli.system.java import find_java

    java = find_java()
    selected_programs = programs or ["spark", "kafka"]
    if "kafka" not in selected_programs or len(selected_programs) > 1:
        require("spark", "cqrs warm spark")
    if "spark" in selected_programs:
        _warm(cli, "Spark", partial(warm_spark, java), "Spark's JVM: half a minute")
    if "executors" in selected_programs:
        _warm(cli, "an executor", partial(warm_executors, java), "executors")
    if "kafka" in selected_programs:
        _warm(cli, "the embedded Kafka", partial(warm_broker, java))


def _warm(
    cli: Cli, program: str, write_archive: Callable[[Callable[[str], None]], Path], spinner_text: str = ""
) -> None:
    """Write the archive of a program, and print its path and size."""
    with cli.show_spinner(f"writing the class data archive of {spinner_text or program}"):
        archive = write_archive(cli.print_note)
    size = archive.stat().st_size
    text = f"{program} starts from {archive}, {size >> 20} MiB"
    cli.print_result({"program": program, "archive": archive, "bytes": size}, text)
