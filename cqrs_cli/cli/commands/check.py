"""`cqrs check`: find changes of the code that break events or commands, before a commit and in CI."""

from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, option
from cqrs_cli.cli.spark_session import SparkOptions, spark_session
from cqrs_cli.extras import require

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cqrs_cli.cli.render.check import LogRead


@command(
    app,
    examples=["cqrs check", "cqrs check --write"],
)
def check(
    cli: Cli,
    aggregates: AggregateNames = None,
    write: Annotated[
        bool, option("--write", "Update schemas/, and remove files without an aggregate.")
    ] = False,
    log: Annotated[bool, option("--log", "Read all stored events, too, on Spark.")] = False,
    *,
    spark: SparkOptions,
) -> int:
    """Check that the code can read what older code has written, before you commit and in CI.

    It compares the aggregates with schemas/AGGREGATE.json, which --write updates: commit these files. Red changes
    break stored events or clients; each has a remedy, and the command exits with 1. Amber changes only need --write,
    or concern an evolve that changed under the same revision.

    --log reads every stored event, too, and names the events that the code cannot read.
    """
    from cqrs_cli.cli.render.check import check_result, highest_level
    from cqrs_cli.doctor.contracts import compare_with_code, remove_contract, write_contract

    properties = spark.apply(cli)
    aggregates_by_name = cli.selected_aggregates(aggregates)
    root = cli.settings.root
    comparisons = compare_with_code(root, aggregates_by_name, find_removed=not aggregates)
    if write:
        for aggregate in aggregates_by_name.values():
            write_contract(root, aggregate)
        for comparison in comparisons:
            if comparison.aggregate not in aggregates_by_name:
                remove_contract(comparison.file)
    logs = _read_logs(cli, aggregates_by_name, properties) if log else {}
    cli.print_result(*check_result(comparisons, logs, write))
    return 1 if highest_level([comparison for comparison in comparisons if not write], logs) == "red" else 0


def _read_logs(cli: Cli, names: "Iterable[str]", properties: "Mapping[str, str]") -> "dict[str, LogRead]":
    """Read each aggregate's log on Spark: aggregate → number of events, and events that the code cannot read."""
    from cqrs_cli.cli.render.check import LogRead

    require("spark", "cqrs check --log")
    from cqrs_cli.jobs.check import plan_reading, read_log

    settings, connection = cli.settings, cli.connection()
    plans = {
        name: plan_reading(connection, cli.topics(name), settings.aggregates, settings.root) for name in names
    }
    logs = {}
    with spark_session(cli, "check", plans, properties) as (context, _):
        for name, plan in plans.items():
            with cli.show_spinner(f"reading the events of {name}"):
                logs[name] = LogRead(*read_log(context, plan))
    return logs
