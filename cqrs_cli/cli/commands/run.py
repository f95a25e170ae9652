"""`cqrs run`: own the topics' partitions and decide."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cqrs_cli import failpoints
from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import MetricsAddress, argument, complete_from, metrics_at, option
from cqrs_cli.cli.spark_session import LONG_LIVED, SparkOptions, spark_session
from cqrs_cli.errors import TakenOverError, UsageError
from cqrs_cli.words import counted, rough_time

if TYPE_CHECKING:
    from pyspark import SparkContext

    from cqrs_cli.cli.render.progress import RunDisplay
    from cqrs_cli.core.aggregate.aggregate import Aggregate
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.runs.assembly import Assembly, Interventions
    from cqrs_cli.runs.snapshot import Snapshot


@dataclass(frozen=True)
class ShardOptions:
    """The place of states."""

    state_dir: Annotated[Path | None, option("--state-dir DIR", "Where shards rest, on a local disk.")] = None
    store: Annotated[
        Literal["lmdb", "memory"] | None,
        option("--store lmdb|memory", "Keep states on disk, or in memory alone."),
    ] = None


@dataclass(frozen=True)
class InterventionOptions:
    """The places where an operator has the run go on."""

    accept_loss: Annotated[
        list[str] | None,
        option(
            "--accept-loss [PROCESS:]AGG:P@OFFSET", "Go on from there, though commands or events are lost."
        ),
    ] = None
    skip: Annotated[
        list[str] | None, option("--skip PROCESS:AGG:P@OFFSET", "Leave out the event that stopped a process.")
    ] = None
    fail: Annotated[
        list[str] | None, option("--fail AGG:P@OFFSET", "Give this command a failed outcome; repeatable.")
    ] = None

    def read(self) -> "Interventions":
        from cqrs_cli.runs.assembly import Interventions

        return Interventions(self.accept_loss or (), self.skip or (), self.fail or ())


@command(
    app,
    examples=[
        "cqrs run",
        "cqrs run bank_account --once",
        "cqrs run --reload",
        "cqrs run order payment --process checkout",
        "cqrs run --process checkout",
        "cqrs run --metrics-address 0.0.0.0:9500",
        "cqrs run --standby",
        "cqrs run --master spark://127.0.0.1:7077 --conf spark.executor.memory=2g",
        "cqrs run bank_account --accept-loss bank_account:3@250",
    ],
)
def run(
    cli: Cli,
    aggregates: Annotated[list[str] | None, argument("AGGREGATE", "Which to decide for; none: all.")] = None,
    process: Annotated[
        list[str] | None,
        option(
            "--process NAME",
            "Run this process manager, and decide only for AGGREGATE; repeatable.",
            complete=complete_from("processes"),
        ),
    ] = None,
    no_processes: Annotated[bool, option("--no-processes", "Run no process manager.")] = False,
    origin: Annotated[
        Literal["beginning", "end"], option("--from beginning|end", "Where a new process manager begins.")
    ] = "end",
    once: Annotated[
        bool, option("--once", "End when what is there now is decided, by whichever run.")
    ] = False,
    standby: Annotated[
        bool, option("--standby", "Begin only when the run at work ends or is silent.")
    ] = False,
    reload: Annotated[
        bool, option("--reload", "For development: start again when the code changes.")
    ] = False,
    metrics_address: MetricsAddress = None,
    *,
    shards: ShardOptions,
    interventions: InterventionOptions,
    spark: SparkOptions,
) -> int | None:
    """Decide commands and react to events, each exactly once, until stopped.

    Without names it decides for all aggregates and runs all processes; with names it decides for these aggregates, and
    runs the processes that --process names. Whatever stops a process stops the run.

    Each partition has one owner. A run takes the partitions over from an older run, which then ends with exit status 6,
    also for the aggregates that the newer one was not asked for: it says which, and how to go on for them. With --once
    it takes over nothing from a run that decides: it waits for it, and begins itself where nothing moves. With
    --standby it holds everything ready, begins when the run at work ends or is silent for standby_after, and stands by
    again instead of ending when another run takes over. The first
    Ctrl-C (or SIGTERM, SIGHUP) stops cleanly; everything committed is whole.

    With -o json it streams JSON Lines: progress, once a second while something changes, notes as they come, and the
    end; --once prints one document.

    With --reload it watches the Python files of aggregates and processes. It does not go on with code that cannot be
    loaded, that does not read events of before, or whose evolve changed under the same revision: it says why, and keeps
    the run as it is. With --store memory evolve may change: the states are made from the log at each start.
    """
    if no_processes and process:
        raise UsageError("--no-processes and --process do not go together", "leave one of them out")
    if standby and (once or reload):
        raise UsageError(
            f"--standby does not go with {'--once' if once else '--reload'}", "leave one of them out"
        )
    cli.timestamped = not sys.stderr.isatty()
    cli.streaming = cli.output == "json" and not once
    properties = LONG_LIVED | spark.apply(cli)
    cli.flags.update(state_dir=shards.state_dir, store=shards.store)
    if reload:
        return _reload(cli, aggregates, once)
    from cqrs_cli.cli.clocks import note_clock
    from cqrs_cli.cli.processes import chosen_processes
    from cqrs_cli.cli.render.progress import RunDisplay, run_result
    from cqrs_cli.following.processes.load import PROCESSES
    from cqrs_cli.runs.assembly import assemble

    for setting, value in failpoints.environment().items():
        cli.note(f"{setting}={value}: owners of this run will be struck on purpose")
    address, places = metrics_at(metrics_address), interventions.read()
    everything = not (aggregates or process)
    known = cli.usable(aggregates) if aggregates or everything else {}
    connection = cli.connection()
    if everything:
        known = _with_topics(cli, connection, known)
    reacts = process or (everything and not no_processes)
    chosen = chosen_processes(cli, connection, process) if reacts else []
    assembly = assemble(
        cli.settings,
        connection,
        known,
        chosen,
        places,
        beginning=origin == "beginning",
        once=once,
        standby=standby,
    )
    note_clock(cli, connection)
    if once and not places:
        left = assembly.left(cli.note)
        if left is None:
            cli.result(*run_result(assembly.nothing_left()))
            return None
        assembly = left
    packages = [PROCESSES] if assembly.reacting else []
    with (
        RunDisplay(cli, address, decides=bool(known)) as display,
        spark_session(cli, "run", known or process or (), properties, packages) as (context, slots),
    ):
        tasks = min(assembly.partitions, slots)
        _begin(cli, assembly, tasks, standby)
        done = _decide(cli, context, assembly, tasks, display)
    if cli.streaming:
        cli.event("end", {"how": "ended", **done.summary()})
    else:
        cli.result(*run_result(done))
    return None


def _with_topics(
    cli: Cli, connection: "Connection", aggregates: "dict[str, Aggregate]"
) -> "dict[str, Aggregate]":
    """The aggregates without those that have no topics yet, each of which gets a note."""
    from cqrs_cli.deciding.prepare import without_topics

    left_out = without_topics(cli.settings, connection, aggregates)
    for name in left_out:
        text = f"left out, as it has no topics: {name}; create them: cqrs init {name}"
        cli.note(cli.with_flags(text), "warning")
    return {name: one for name, one in aggregates.items() if name not in left_out}


def _begin(cli: Cli, assembly: "Assembly", tasks: int, standby: bool) -> None:
    """Say what begins, and for which run; raises `CqrsError` for code that --reload has not judged."""
    from cqrs_cli.cli.reload.files import check_judged
    from cqrs_cli.runs.other_runs import others_at_work

    for other, commands in others_at_work(assembly.plan).items():
        how = "standing by for" if standby else "taking over from"
        cli.note(f"{how} run {other}, which has decided {counted(commands, 'command')}")
    where = f"{counted(assembly.partitions, 'partition')}, {counted(tasks, 'task')}"
    cli.note(f"{assembly}: {where}; Ctrl-C stops")
    check_judged(cli.settings.root, cli.settings.aggregates)


def _decide(
    cli: Cli, context: "SparkContext", assembly: "Assembly", tasks: int, display: "RunDisplay"
) -> "Snapshot":
    """Decide and react until the run ends; how far it came is said also when it is stopped or taken over."""
    from cqrs_cli.cli.render.progress import run_result
    from cqrs_cli.jobs.run import run_owners

    try:
        return run_owners(context, assembly.plan, tasks, display.show, display.note, assembly.reacting)
    except (KeyboardInterrupt, TakenOverError) as end:
        if display.last is not None:
            how = "stopped" if isinstance(end, KeyboardInterrupt) else "taken over"
            if cli.streaming:
                cli.event("end", {"how": how, **display.last.summary()})
            else:
                after = rough_time(time.monotonic() - display.began)
                cli.note(f"{how} after {after}: {run_result(display.last).text}")
        raise


def _reload(cli: Cli, aggregates: list[str] | None, once: bool) -> int:
    """Run in a process of its own, with the same command line, and start that again when the code changes."""
    from cqrs_cli.cli.reload.loop import Reloader

    if once or cli.output == "json":
        raise UsageError(
            f"--reload is not for {'--once' if once else '-o json'}", "leave one out: it is for development"
        )
    settings = cli.settings
    cli.chosen(aggregates)  # says what is wrong before anything starts
    command = [sys.executable, "-m", "cqrs_cli", *(one for one in sys.argv[1:] if one != "--reload")]
    in_memory = settings.store == "memory"
    return Reloader(command, aggregates, settings.aggregates, settings.root, cli.note, in_memory).run()
