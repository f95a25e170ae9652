"""`cqrs whatif`: decide past commands again with other code."""

import time
from pathlib import Path
from typing import Annotated, Literal

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, option, time_option
from cqrs_cli.cli.output import job_progress_text
from cqrs_cli.cli.render.queries.whatif import whatif_result
from cqrs_cli.cli.spark_session import SparkOptions, spark_session
from cqrs_cli.cli.target import optional_target
from cqrs_cli.errors import UsageError


@command(
    app,
    examples=[
        "cqrs whatif bank_account --with drafts.bank_account",
        "cqrs whatif bank_account --with drafts.bank_account --since 2026-11-01 --at 2026-11-08",
    ],
    extras=["spark"],
)
def whatif(
    cli: Cli,
    aggregate: AggregateName,
    module: Annotated[
        str, option("--with MODULE", "The other decider: a module, drafts.bank_account, or its file.")
    ],
    since: Annotated[
        str | None,
        option("--since TIME", "Decide commands since this time: 7d ago, 2026-11-21, or RFC 3339."),
    ] = None,
    at: Annotated[
        str | None, option("--at TIME", "Decide commands up to this time. Default: all decided commands.")
    ] = None,
    out: Annotated[str | None, option("--out DIR", "Write a row for each difference.")] = None,
    format: Annotated[
        Literal["parquet", "json"] | None,
        option("--format parquet|json", "Format of the files. Default: parquet."),
    ] = None,
    *,
    spark: SparkOptions,
) -> None:
    """Decide past commands again with other code, on Spark, and report the differences.

    The other code folds the events before --since, then decides each command as if at the command's own time. No topic
    is written.

    It compares outcomes, events, versions and the final states. docs/insight.md explains each difference, and which
    commands are not decided again.
    """
    from cqrs_cli import registry
    from cqrs_cli.jobs.whatif import decide_all_again, plan_whatif

    properties = spark.apply(cli)
    settings = cli.settings
    since_ms, until_ms = _time_range(since, at)
    target = optional_target(out, format)
    cli.aggregate(aggregate)
    module_name = _module_name(module, settings.root)
    registry.load_from(aggregate, module_name, settings.root)
    plan = plan_whatif(cli.connection(), cli.topics(aggregate), settings, module_name, since_ms, until_ms)
    package = module_name.partition(".")[0]
    packages = () if package == settings.aggregates else (package,)
    title = f"deciding {aggregate} again"
    with (
        spark_session(cli, "whatif", [aggregate], properties, packages) as (context, _),
        cli.show_spinner(title) as show_text,
    ):
        result = decide_all_again(
            context,
            plan,
            target,
            lambda progress: show_text(job_progress_text(title, progress, "records", cli.is_live)),
        )
    for partition in result.incomplete_partitions:
        cli.print_note(
            f"partition {partition}: retention has deleted commands of that time; the others are decided again"
        )
    cli.print_result(*whatif_result(aggregate, module_name, result, target))


def _time_range(since: str | None, at: str | None) -> tuple[int | None, int | None]:
    """Return the times of --since and --at in ms; raises `UsageError` for an empty range."""
    since_ms = None if since is None else time_option("--since", since)
    until_ms = None if at is None else time_option("--at", at)
    if since_ms is not None and since_ms > time.time_ns() // 1_000_000:
        raise UsageError(f"--since {since} is in the future", "give a past time")
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise UsageError(f"--since {since} is after --at {at}", "swap them")
    return since_ms, until_ms


def _module_name(module: str, root: Path) -> str:
    """Return the dotted name of a module, which the user may also name by its file."""
    if not module.endswith(".py"):
        return module
    file = Path(module).absolute()
    if not file.is_relative_to(root.absolute()):
        raise UsageError(f"{module} is not in the project {root}", "put it into a folder there")
    return ".".join(file.relative_to(root.absolute()).with_suffix("").parts)
