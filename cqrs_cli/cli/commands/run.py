"""`cqrs run`: own the topics' partitions and decide."""

import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from cqrs_cli import failpoints
from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import Conf, Master, MetricsAddress, complete_from, metrics_at, spark_properties
from cqrs_cli.errors import TakenOverError, UsageError
from cqrs_cli.words import counted


@command(
    app,
    examples=[
        "cqrs run",
        "cqrs run bank_account --once",
        "cqrs run --reload",
        "cqrs run order payment --process checkout",
        "cqrs run --metrics-address 0.0.0.0:9500",
        "cqrs run --standby",
        "cqrs run --master spark://127.0.0.1:7077 --conf spark.executor.memory=2g",
        "cqrs run bank_account --accept-loss bank_account:3@250",
    ],
)
def run(
    cli: Cli,
    aggregates: Annotated[
        list[str] | None, typer.Argument(metavar="AGGREGATE", help="Which to decide for; none: all.")
    ] = None,
    process: Annotated[
        list[str] | None,
        typer.Option(
            "--process",
            metavar="NAME",
            help="Run this process, too; without AGGREGATE the default is all.",
            autocompletion=complete_from("processes"),
        ),
    ] = None,
    no_processes: Annotated[
        bool, typer.Option("--no-processes", help="Run none of the project's processes.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="End when what is there now is decided, by whichever run.")
    ] = False,
    standby: Annotated[
        bool, typer.Option("--standby", help="Begin only when the run at work ends or is silent.")
    ] = False,
    master: Master = None,
    conf: Conf = None,
    state_dir: Annotated[
        Path | None, typer.Option("--state-dir", metavar="DIR", help="Where shards rest, on a local disk.")
    ] = None,
    store: Annotated[
        Literal["lmdb", "memory"] | None,
        typer.Option("--store", metavar="lmdb|memory", help="Keep states on disk, or in memory alone."),
    ] = None,
    metrics_address: MetricsAddress = None,
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", metavar="N", min=1, max=65535, help="The same, on loopback."),
    ] = None,
    accept_loss: Annotated[
        list[str] | None,
        typer.Option(
            "--accept-loss",
            metavar="[PROCESS:]AGG:P@OFFSET",
            help="Go on from there, though commands or events are lost.",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            "--skip", metavar="PROCESS:AGG:P@OFFSET", help="Leave out the event that stopped a process."
        ),
    ] = None,
    fail: Annotated[
        list[str] | None,
        typer.Option(
            "--fail", metavar="AGG:P@OFFSET", help="Give this command a failed outcome; repeatable."
        ),
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="For development: start again when the code changes.")
    ] = False,
) -> int | None:
    """Decide commands and react to events, each exactly once, until stopped.

    Without names it decides for all aggregates and runs all processes; with names for these aggregates alone, and it
    runs the processes that --process names. cqrs process runs one by itself. Whatever stops a process stops the run.

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
    if reload:
        return _reload(cli, aggregates, once, store)
    from cqrs_cli.cli.processes import chosen_processes, prepared_processes
    from cqrs_cli.cli.reload.files import check_judged
    from cqrs_cli.cli.render.progress import Display, run_text
    from cqrs_cli.deciding.prepare import prepare, without_topics
    from cqrs_cli.following.processes.load import PROCESSES
    from cqrs_cli.jobs.engine.session import project_session
    from cqrs_cli.jobs.engine.slots import slots
    from cqrs_cli.jobs.run import run_owners
    from cqrs_cli.runs.other_runs import left_to_decide, left_to_react, others_at_work
    from cqrs_cli.runs.snapshot import Snapshot

    cli.timestamped, cli.streaming = not sys.stderr.isatty(), cli.output == "json" and not once
    for setting, value in failpoints.environment().items():
        cli.note(f"{setting}={value}: owners of this run will be struck on purpose")
    spark = spark_properties(conf or ())
    cli.flags.update(master=master, state_dir=state_dir, store=store)
    address = metrics_at(metrics_address, metrics_port)
    settings = cli.settings
    known, connection = cli.usable(aggregates), cli.connection()
    for name in () if aggregates else without_topics(settings, connection, known):
        del known[name]
        cli.note(
            cli.with_flags(f"left out, as it has no topics: {name}; create them: cqrs init {name}"), "warning"
        )
    chosen = (
        [] if no_processes or (aggregates and not process) else chosen_processes(cli, connection, process)
    )
    lost = [text for text in accept_loss or () if text.count(":") < 2]
    with ExitStack() as stack:
        plan = prepare(
            settings, connection, known, once=once, standby=standby, accept_loss=lost, fail=fail or ()
        )
        reacting = prepared_processes(
            cli,
            connection,
            chosen,
            plan,
            [text for text in accept_loss or () if text not in lost],
            skip or (),
        )
        if once and not (accept_loss or fail or skip):
            reacting = reacting and left_to_react(reacting, cli.note)
            left = left_to_decide(plan, cli.note)
            if left is None and reacting is None:
                done = Snapshot(time.monotonic())
                cli.result(done.summary(), run_text(done))
                return None
            plan = left or replace(plan, topics={}, targets={})
        display = stack.enter_context(Display(cli, address))
        with cli.working("starting Spark"):
            packages = [PROCESSES] if reacting else []
            session = project_session(settings, "run", " ".join(known), spark, packages)
            context = stack.enter_context(session)
            held = len(plan.partitions()) + (len(reacting.subscriptions) if reacting else 0)
            tasks = min(held, slots(context, note=cli.note))
        for other, commands in others_at_work(plan).items():
            how = "standing by for" if standby else "taking over from"
            cli.note(f"{how} run {other}, which has decided {counted(commands, 'command')}")
        work = f"deciding for {', '.join(plan.topics)}" if plan.topics else ""
        if reacting:
            work += f"{', ' if work else ''}running {', '.join(reacting.processes())}"
        cli.note(f"{work}: {counted(held, 'partition')}, {counted(tasks, 'task')}; Ctrl-C stops")
        check_judged(settings.root, settings.aggregates)
        try:
            done = run_owners(context, plan, tasks, display.show, display.note, reacting)
        except (KeyboardInterrupt, TakenOverError) as end:
            if display.last is not None:
                how = "stopped" if isinstance(end, KeyboardInterrupt) else "taken over"
                if cli.streaming:
                    cli.event("end", {"how": how, **display.last.summary()})
                else:
                    cli.note(f"{how}: {run_text(display.last)}")
            raise
    if cli.streaming:
        cli.event("end", {"how": "ended", **done.summary()})
    else:
        cli.result(done.summary(), run_text(done))
    return None


def _reload(cli: Cli, aggregates: list[str] | None, once: bool, store: str | None) -> int:
    """Run in a process of its own, with the same command line, and start that again when the code changes."""
    from cqrs_cli.cli.reload.loop import Reloader

    cli.timestamped = not sys.stderr.isatty()
    if once or cli.output == "json":
        raise UsageError(
            f"--reload is not for {'--once' if once else '-o json'}", "leave one out: it is for development"
        )
    cli.flags.update(store=store)
    settings = cli.settings
    cli.chosen(aggregates)  # says what is wrong before anything starts
    command = [sys.executable, "-m", "cqrs_cli", *(one for one in sys.argv[1:] if one != "--reload")]
    in_memory = settings.store == "memory"
    return Reloader(command, aggregates, settings.aggregates, settings.root, cli.note, in_memory).run()
