"""`cqrs check`: what a change of the code would break, for people before they commit and for CI."""

from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, option
from cqrs_cli.cli.spark_session import SparkOptions, spark_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cqrs_cli.cli.render.check import LogRead


@command(
    app,
    examples=["cqrs check", "cqrs check --write", "cqrs check bank_account --log -o json"],
)
def check(
    cli: Cli,
    aggregates: AggregateNames = None,
    write: Annotated[bool, option("--write", "Write schemas/AGGREGATE.json, whatever has changed.")] = False,
    log: Annotated[bool, option("--log", "Read all events of the log, too, on Spark.")] = False,
    *,
    spark: SparkOptions,
) -> int:
    """Check that the code reads what was written before: for CI, and before you commit.

    It compares the aggregates with schemas/AGGREGATE.json, which --write brings up to date: commit them. Red is what
    events on the log or clients would trip over: an event, field or value that is gone or renamed, a new field without
    default, another type; each is named with what to do. Amber is a change that only has to be written, and a changed
    evolve under the same revision. Ends with 1 on red.

    With --log it reads every event, and names type, partition and offset of those that the code cannot read.
    """
    from cqrs_cli.cli.render.check import checked, gravest
    from cqrs_cli.doctor.contracts import compare, write_contract

    properties = spark.apply(cli)
    chosen = cli.chosen(aggregates)
    root = cli.settings.root
    compared = compare(root, chosen, every=not aggregates)
    if write:
        for aggregate in chosen.values():
            write_contract(root, aggregate)
    logs = _read_logs(cli, chosen, properties) if log else {}
    cli.result(*checked(compared, logs, write))
    return 1 if gravest([one for one in compared if not write], logs) == "red" else 0


def _read_logs(cli: Cli, names: "Iterable[str]", properties: "Mapping[str, str]") -> "dict[str, LogRead]":
    """The events of each aggregate's log, and those that cannot be read."""
    from cqrs_cli.cli.render.check import LogRead
    from cqrs_cli.jobs.check import plan_reading, read_log

    settings, connection = cli.settings, cli.connection()
    plans = {
        name: plan_reading(connection, cli.topics(name), settings.aggregates, settings.root) for name in names
    }
    found = {}
    with spark_session(cli, "check", plans, properties) as (context, _):
        for name, plan in plans.items():
            with cli.working(f"reading the events of {name}"):
                found[name] = LogRead(*read_log(context, plan))
    return found
