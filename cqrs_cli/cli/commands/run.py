"""`cqrs run`: own the topics' partitions, and decide commands."""

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cqrs_cli import failpoints
from cqrs_cli.cli.app import app
from cqrs_cli.cli.attribution import attribution_of
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import (
    AggregateNames,
    MetricsAddress,
    StateDir,
    complete_modules,
    option,
    parse_metrics_address,
)
from cqrs_cli.cli.spark_session import LONG_LIVED, SparkOptions, spark_session
from cqrs_cli.errors import ConfigurationError, TakenOverError, UnavailableError, UsageError
from cqrs_cli.formatting import counted, rough_time
from cqrs_cli.telemetry.otel.export_settings import check_export_settings

if TYPE_CHECKING:
    from pyspark import SparkContext

    from cqrs_cli.cli.render.progress import RunDisplay
    from cqrs_cli.core.aggregate.aggregate import Aggregate
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.runs.run_plan import OperatorOverrides, RunPlan
    from cqrs_cli.runs.snapshot import Snapshot
    from cqrs_cli.runs.source_files import SourceWatch


#: Seconds for which a standby run tries to plan again while partitions are being added to its topics.
_PLAN_TIMEOUT = 60.0


@dataclass(frozen=True)
class ProcessOptions:
    """The process managers of the run."""

    process: Annotated[
        list[str] | None,
        option(
            "--process NAME",
            "Run this process manager; repeatable.",
            complete=complete_modules("processes"),
        ),
    ] = None
    no_processes: Annotated[bool, option("--no-processes", "Run no process manager.")] = False
    origin: Annotated[
        Literal["beginning", "end"],
        option("--from beginning|end", "The first event that a new process manager reads."),
    ] = "end"


@dataclass(frozen=True)
class OverrideOptions:
    """Operator overrides: continue after a loss, skip an event, fail a command."""

    accept_loss: Annotated[
        list[str] | None,
        option(
            "--accept-loss [PROCESS:]AGG:P@OFFSET",
            "Continue at this offset, although earlier records were lost; repeatable.",
        ),
    ] = None
    skip: Annotated[
        list[str] | None,
        option(
            "--skip PROCESS:AGG:P@OFFSET", "Skip the event that stopped this process manager; repeatable."
        ),
    ] = None
    fail: Annotated[
        list[str] | None,
        option("--fail AGG:P@OFFSET", "Fail this command, in partition P, without deciding it; repeatable."),
    ] = None

    def overrides(self) -> "OperatorOverrides":
        from cqrs_cli.runs.run_plan import OperatorOverrides

        actor = attribution_of("skip").actor if self.skip else ""
        return OperatorOverrides(self.accept_loss or (), self.skip or (), self.fail or (), actor)


@command(
    app,
    examples=[
        "cqrs run",
        "cqrs run order payment --process checkout --once",
    ],
    extras=["spark"],
)
def run(
    cli: Cli,
    aggregates: AggregateNames = None,
    *,
    processes: ProcessOptions,
    once: Annotated[
        bool,
        option("--once", "Exit when all commands and events that exist now are handled, by any run."),
    ] = False,
    standby: Annotated[
        bool, option("--standby", "Keep state warm, and take over when the active run fails.")
    ] = False,
    reload: Annotated[bool, option("--reload", "Restart when the code changes, during development.")] = False,
    state_dir: StateDir = None,
    metrics_address: MetricsAddress = None,
    override_options: OverrideOptions,
    spark: SparkOptions,
) -> int | None:
    """Decide commands, and run process managers, until stopped.

    Without names, the run includes all aggregates and process managers; with AGGREGATE or --process, only the named.

    A new run takes over the partitions of an active run, which then exits with 6. Ctrl-C stops the run cleanly. With -o
    json it prints its progress as JSON Lines.

    When --accept-loss, --skip or --fail can help, the error contains the option to use. docs/operations.md explains
    takeovers and --standby.
    """
    if processes.no_processes and processes.process:
        raise UsageError("--no-processes and --process do not go together", "leave one of them out")
    if standby and (once or reload):
        raise UsageError(
            f"--standby does not go with {'--once' if once else '--reload'}", "leave one of them out"
        )
    check_export_settings()
    cli.timestamped = not sys.stderr.isatty()
    cli.streaming = cli.output == "json" and not once
    properties = LONG_LIVED | spark.apply(cli)
    cli.flags.update(state_dir=state_dir)
    if reload:
        return _run_with_reload(cli, aggregates, once)
    from cqrs_cli.cli.clocks import warn_of_clock_difference
    from cqrs_cli.cli.render.progress import RunDisplay, run_result
    from cqrs_cli.following.processes.load import PROCESSES
    from cqrs_cli.runs.plan_watch import PlanChangedError
    from cqrs_cli.runs.source_files import SourceWatch

    for setting, value in failpoints.environment().items():
        cli.print_note(f"{setting}={value}: fault injection is on, this run will kill its own workers")
    metrics_host_port, overrides = parse_metrics_address(metrics_address), override_options.overrides()
    source_watch = SourceWatch(cli.settings.root, cli.settings.aggregates) if standby else None
    run_plan = _plan_run(cli, aggregates, processes, overrides, once, standby)
    warn_of_clock_difference(cli, run_plan.deciding_plan.connection)
    if once and not overrides:
        remaining_plan = run_plan.remaining_part(cli.print_note)
        if remaining_plan is None:
            cli.print_result(*run_result(run_plan.finished_snapshot()))
            return None
        run_plan = remaining_plan
    packages = [PROCESSES] if run_plan.process_plan else []
    with (
        RunDisplay(cli, metrics_host_port, decides=bool(run_plan.deciding_plan.topics)) as display,
        spark_session(cli, "run", run_plan.names, properties, packages) as (context, slot_count),
    ):
        while True:
            task_count = min(run_plan.partition_count, slot_count)
            _print_start(cli, run_plan, task_count, standby)
            try:
                snapshot = _run_until_end(cli, context, run_plan, task_count, display, source_watch)
                break
            except PlanChangedError as change:
                display.restart(f"{change.message}: planning again")
                run_plan = _plan_standby_again(cli, aggregates, processes, overrides)
    if cli.streaming:
        cli.print_event("end", {"how": "ended", **snapshot.summary()})
    else:
        cli.print_result(*run_result(snapshot))
    return None


def _plan_run(
    cli: Cli,
    aggregates: list[str] | None,
    processes: ProcessOptions,
    overrides: "OperatorOverrides",
    once: bool,
    standby: bool,
) -> "RunPlan":
    """Plan the named aggregates and process managers; without names, all of them."""
    from cqrs_cli.cli.processes import selected_processes
    from cqrs_cli.runs.run_plan import plan_run

    runs_all = not (aggregates or processes.process)
    aggregates_by_name = cli.usable_aggregates(aggregates) if aggregates or runs_all else {}
    connection = cli.connection()
    if runs_all:
        aggregates_by_name = _aggregates_with_topics(cli, connection, aggregates_by_name)
    runs_processes = processes.process or (runs_all and not processes.no_processes)
    loaded_processes = selected_processes(cli, connection, processes.process) if runs_processes else []
    from_beginning = processes.origin == "beginning"
    return plan_run(
        cli.settings,
        connection,
        aggregates_by_name,
        loaded_processes,
        overrides,
        from_beginning=from_beginning,
        once=once,
        standby=standby,
    )


def _plan_standby_again(
    cli: Cli,
    aggregates: list[str] | None,
    processes: ProcessOptions,
    overrides: "OperatorOverrides",
) -> "RunPlan":
    """Plan a standby run again after its topics have changed; retry while partitions are being added to them."""
    deadline = time.monotonic() + _PLAN_TIMEOUT
    while True:
        try:
            return _plan_run(cli, aggregates, processes, overrides, once=False, standby=True)
        except (ConfigurationError, UnavailableError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _aggregates_with_topics(
    cli: Cli, connection: "Connection", aggregates: "dict[str, Aggregate]"
) -> "dict[str, Aggregate]":
    """Return the aggregates that have topics; print a warning for each other aggregate."""
    from cqrs_cli.deciding.prepare import aggregates_without_topics

    names_without_topics = aggregates_without_topics(cli.settings, connection, aggregates)
    for name in names_without_topics:
        text = f"left out, as it has no topics: {name}; create them: cqrs init {name}"
        cli.print_note(cli.with_flags(text), "warning")
    return {name: aggregate for name, aggregate in aggregates.items() if name not in names_without_topics}


def _print_start(cli: Cli, run_plan: "RunPlan", task_count: int, standby: bool) -> None:
    """Print the other active runs, and the names, partitions and tasks of this run. Raises `CqrsError` for code that
    --reload has not checked.
    """
    from cqrs_cli.cli.reload.files import check_reloaded_code
    from cqrs_cli.runs.other_runs import active_runs

    for other_run, command_count in active_runs(run_plan.deciding_plan).items():
        verb = "standby for" if standby else "taking over from"
        cli.print_note(f"{verb} run {other_run}, which has decided {counted(command_count, 'command')}")
    parallelism_text = f"{counted(run_plan.partition_count, 'partition')}, {counted(task_count, 'task')}"
    cli.print_note(f"{run_plan}: {parallelism_text}; Ctrl-C stops")
    check_reloaded_code(cli.settings.root, cli.settings.aggregates)


def _run_until_end(
    cli: Cli,
    context: "SparkContext",
    run_plan: "RunPlan",
    task_count: int,
    display: "RunDisplay",
    source_watch: "SourceWatch | None",
) -> "Snapshot":
    """Run owners and process managers until the run ends. If it is stopped or taken over, print its progress."""
    from cqrs_cli.cli.render.progress import run_result
    from cqrs_cli.jobs.run import run_owners

    try:
        return run_owners(
            context,
            run_plan.deciding_plan,
            task_count,
            display.show,
            display.warn,
            run_plan.process_plan,
            source_watch,
        )
    except (KeyboardInterrupt, TakenOverError) as stop_reason:
        if display.last is not None:
            verb = "stopped" if isinstance(stop_reason, KeyboardInterrupt) else "taken over"
            if cli.streaming:
                cli.print_event("end", {"how": verb, **display.last.summary()})
            else:
                duration_text = rough_time(time.monotonic() - display.started_at)
                cli.print_note(f"{verb} after {duration_text}: {run_result(display.last).text}")
        raise


def _run_with_reload(cli: Cli, aggregates: list[str] | None, once: bool) -> int:
    """Run the same command line in a child process, and restart the process when the code changes."""
    from cqrs_cli.cli.reload.loop import Reloader

    if once or cli.output == "json":
        raise UsageError(
            f"--reload is not for {'--once' if once else '-o json'}", "leave one out: it is for development"
        )
    settings = cli.settings
    cli.selected_aggregates(aggregates)  # raises its errors before anything starts
    command = [
        sys.executable,
        "-m",
        "cqrs_cli",
        *(argument for argument in sys.argv[1:] if argument != "--reload"),
    ]
    in_memory = settings.store == "memory"
    return Reloader(command, aggregates, settings.aggregates, settings.root, cli.print_note, in_memory).run()
