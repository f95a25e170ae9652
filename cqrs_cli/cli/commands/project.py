"""`cqrs project`: fill a read model in a database from the events."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import (
    MetricsAddress,
    argument,
    complete_modules,
    option,
    parse_metrics_address,
)
from cqrs_cli.cli.spark_session import SparkOptions, spark_session
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.cli.render.display import RecordsDisplay
    from cqrs_cli.following.projections.databases.address import DatabaseAddress
    from cqrs_cli.following.projections.load import LoadedProjection
    from cqrs_cli.following.projections.plan import ProjectionPlan, ProjectionProgress
    from cqrs_cli.following.projections.prepare import PreparedProjection
    from cqrs_cli.jobs.projection import RunProjection


@command(
    app,
    examples=[
        "cqrs project recent_orders --once",
        "cqrs project recent_orders --to postgresql://shop@db-1/shop",
    ],
    extras=["spark", "projections"],
)
def project(
    cli: Cli,
    name: Annotated[
        str,
        argument(
            "NAME", "The projection, a file in `projections`.", complete=complete_modules("projections")
        ),
    ],
    to: Annotated[
        str, option("--to URL", "The database: SQLite, PostgreSQL, MariaDB or DuckDB.")
    ] = "sqlite:///projections.db",
    once: Annotated[bool, option("--once", "Handle the events that exist now, then exit.")] = False,
    rebuild: Annotated[
        bool, option("--rebuild", "Fill new tables from the first event on, then replace the old tables.")
    ] = False,
    metrics_address: MetricsAddress = None,
    *,
    spark: SparkOptions,
) -> None:
    """Fill a projection in a database with each event exactly once, until stopped.

    Each database transaction contains rows and read position. A second cqrs project for the same tables takes over; the
    first exits with 6. After a change of the projection's revision, or with --rebuild, the command fills new tables,
    which then replace the old tables.

    If database or broker do not answer, it waits; with --once it exits with 4 after a minute. docs/projections.md
    explains passwords and databases.
    """
    from cqrs_cli.cli.render.display import RecordsDisplay
    from cqrs_cli.following.projections.database import parse_database, url_without_password
    from cqrs_cli.following.projections.load import load_projection
    from cqrs_cli.following.projections.prepare import ONCE_TIMEOUT, prepare_projection
    from cqrs_cli.jobs.projection import is_small_backlog
    from cqrs_cli.kafka.event_tail import PartitionsAddedError
    from cqrs_cli.status.metrics import ProjectionMetrics
    from cqrs_cli.telemetry.otel.export_settings import check_export_settings

    check_export_settings()
    cli.timestamped = not sys.stderr.isatty()
    properties = spark.apply(cli)
    address = parse_metrics_address(metrics_address)
    settings = cli.settings
    loaded_projection = load_projection(name, settings.root, settings.aggregates)
    database = parse_database(to, settings.root)
    prepare = partial(
        prepare_projection,
        settings,
        cli.connection(),
        loaded_projection,
        database,
        cli.print_note,
        timeout=ONCE_TIMEOUT if once else None,
    )
    with ExitStack() as stack:
        prepared = prepare(rebuild=rebuild)
        metrics = None if address is None else (address, ProjectionMetrics(name))
        display: RecordsDisplay[ProjectionProgress] = stack.enter_context(RecordsDisplay(cli, metrics))
        if once and spark == SparkOptions() and is_small_backlog(prepared.new or prepared.live):
            run, worker_text = _in_process_runner(cli, loaded_projection, display), "this process"
        else:
            run, tasks = stack.enter_context(
                _spark_runner(cli, name, prepared, database, properties, display)
            )
            worker_text = counted(tasks, "task")
        if prepared.previous_owners:
            cli.print_note(f"took over from {', '.join(prepared.previous_owners)}")
        parallelism_text = f"{counted(len(prepared.live.sources), 'partition')}, {worker_text}"
        cli.print_note(
            f"projecting {name} into {url_without_password(database)}: {parallelism_text}; Ctrl-C stops"
        )
        shadow_progress = None
        if prepared.new is not None:
            shadow_progress = _fill_shadow_tables(cli, run, prepared, prepared.new, loaded_projection)
        while True:
            try:
                _project(cli, run, prepared.live, loaded_projection, once, display, shadow_progress)
            except PartitionsAddedError as error:
                cli.print_note(f"{error.message}; continuing with all partitions")
                prepared = prepare()
            else:
                return


def _in_process_runner(
    cli: Cli, loaded_projection: "LoadedProjection", display: "RecordsDisplay[ProjectionProgress]"
) -> "RunProjection":
    from cqrs_cli.jobs.projection import run_in_process

    return partial(
        run_in_process, loaded_projection=loaded_projection, show=display.show, report=cli.print_note
    )


@contextmanager
def _spark_runner(
    cli: Cli,
    name: str,
    prepared: "PreparedProjection",
    database: "DatabaseAddress",
    properties: Mapping[str, str],
    display: "RecordsDisplay[ProjectionProgress]",
) -> "Iterator[tuple[RunProjection, int]]":
    """Yield the function that runs a plan on Spark, and the number of tasks, which the database may limit."""
    from cqrs_cli.following.projections.databases.known import dialect_of
    from cqrs_cli.following.projections.load import PACKAGE
    from cqrs_cli.jobs.projection import run_projection

    with spark_session(cli, "project", [name], properties, [PACKAGE]) as (context, slots):
        partitions = len(prepared.live.sources)
        tasks = min(partitions, dialect_of(database).tasks or partitions, slots)
        yield (
            partial(run_projection, context, task_count=tasks, show=display.show, report=cli.print_note),
            tasks,
        )


def _fill_shadow_tables(
    cli: Cli,
    run: "RunProjection",
    prepared: "PreparedProjection",
    shadow_plan: "ProjectionPlan",
    loaded_projection: "LoadedProjection",
) -> "ProjectionProgress":
    """Fill the shadow tables up to the present ends of the logs, then swap them with the live tables."""
    from cqrs_cli.following.projections.prepare import stable_ends
    from cqrs_cli.following.projections.swap import swap_with_retries

    cli.print_note(
        f"filling shadow tables of revision {loaded_projection.projection.revision} in addition to the live tables"
    )
    shadow_progress = run(replace(shadow_plan, end_offsets=stable_ends(shadow_plan)))
    swap_with_retries(prepared.live, shadow_plan, loaded_projection, cli.print_note)
    cli.print_note("the shadow tables are swapped in")
    return shadow_progress


def _project(
    cli: Cli,
    run: "RunProjection",
    plan: "ProjectionPlan",
    loaded_projection: "LoadedProjection",
    once: bool,
    display: "RecordsDisplay[ProjectionProgress]",
    shadow_progress: "ProjectionProgress | None",
) -> None:
    """Fill the live tables until the run ends, and print the result.

    `shadow_progress`: the progress of shadow tables that were filled before; the result includes it.
    """
    from cqrs_cli.cli.render.project import projection_result
    from cqrs_cli.following.projections.prepare import stable_ends

    result = partial(projection_result, loaded_projection.name, loaded_projection.projection.revision)
    plan = replace(plan, end_offsets=stable_ends(plan)) if once else plan
    try:
        progress = run(plan)
    except KeyboardInterrupt:
        if display.last is not None:
            cli.print_note(f"stopped: {result(display.last).text}")
        raise
    if shadow_progress is not None:
        progress = replace(
            progress,
            events=shadow_progress.events + progress.events,
            seconds=shadow_progress.seconds + progress.seconds,
        )
    cli.print_result(*result(progress))
