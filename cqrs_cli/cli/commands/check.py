"""`cqrs check`: find changes of the code that break events or commands, before a commit and in CI."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, ReportOutput, option
from cqrs_cli.cli.render.report import SourceLine, print_report, source_line
from cqrs_cli.cli.spark_session import SparkOptions, spark_session
from cqrs_cli.extras import require

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cqrs_cli.cli.render.check import LogRead
    from cqrs_cli.core.aggregate.aggregate import Aggregate
    from cqrs_cli.core.aggregate.compatibility import Change
    from cqrs_cli.settings.settings import Settings


@command(
    app,
    examples=["cqrs check", "cqrs check --write"],
)
def check(
    cli: Cli,
    aggregates: AggregateNames = None,
    write: Annotated[
        bool, option("--write", "Update the contracts, and remove those of removed aggregates.")
    ] = False,
    log: Annotated[bool, option("--log", "Read all stored events, too, on Spark.")] = False,
    registry: Annotated[
        str | None,
        option("--registry URL", "Check with this schema registry, too; with --write register the messages."),
    ] = None,
    output: ReportOutput = "text",
    *,
    spark: SparkOptions,
) -> int:
    """Check that the code can read what older code has written, before you commit and in CI.

    The command compares the aggregates with their contracts, schemas/AGGREGATE.json. --write updates the contracts:
    commit them. A red change breaks stored events or clients: the command prints a remedy, and exits with 1. An amber
    change breaks neither: run --write; if evolve changed, first raise the revision.

    --log also reads every stored event, and names unreadable events. -o also accepts github, sarif and markdown.
    """
    from cqrs_cli.cli.render.check import check_report, check_result, highest_level
    from cqrs_cli.doctor.contracts import compare_with_code, remove_contract, write_contract

    properties = spark.apply(cli)
    aggregates_by_name = cli.selected_aggregates(aggregates)
    root = cli.settings.root
    comparisons = compare_with_code(root, aggregates_by_name, find_removed=not aggregates)
    verdicts = _ask_registry(cli, registry, aggregates_by_name, write) if registry else {}
    if write:
        for aggregate in aggregates_by_name.values():
            write_contract(root, aggregate)
        for comparison in comparisons:
            if comparison.aggregate not in aggregates_by_name:
                remove_contract(comparison.file)
    logs = _read_logs(cli, aggregates_by_name, properties) if log else {}
    comparisons = [
        comparison._replace(changes=[*comparison.changes, *verdicts.get(comparison.aggregate, ())])
        for comparison in comparisons
    ]
    if output == "text" or output == "json":
        cli.print_result(*check_result(comparisons, logs, write))
    else:
        print_report(cli, check_report(comparisons, logs, partial(_source_line, cli.settings)), output)
    is_rejected = any(change.level == "red" for changes in verdicts.values() for change in changes)
    return 1 if is_rejected or highest_level([] if write else comparisons, logs) == "red" else 0


def _ask_registry(
    cli: Cli, address: str, aggregates: "Mapping[str, Aggregate]", register: bool
) -> "dict[str, list[Change]]":
    """Return the verdict of a schema registry on each aggregate; `register`: register its messages."""
    from cqrs_cli.doctor.schema_registry import SchemaRegistry

    registry = SchemaRegistry(address)
    with cli.show_spinner(f"asking {registry.address}"):
        return {
            name: registry.verdict(aggregate, cli.topics(name), register)
            for name, aggregate in aggregates.items()
        }


def _source_line(settings: "Settings", aggregate: str) -> SourceLine:
    """Return the first line of an aggregate's file, or of the contract of an aggregate that no longer exists."""
    from cqrs_cli.doctor.contracts import FOLDER

    root = settings.root
    code = root / settings.aggregates.replace(".", "/") / f"{aggregate}.py"
    return source_line(None, code if code.exists() else root / FOLDER / f"{aggregate}.json", root)


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
