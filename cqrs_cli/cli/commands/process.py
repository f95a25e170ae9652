"""`cqrs process`: turn events of one aggregate into commands of another."""

import sys
from contextlib import ExitStack
from typing import Annotated, Literal

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import MetricsAddress, argument, complete_from, metrics_at, option
from cqrs_cli.cli.spark_session import LONG_LIVED, SparkOptions, spark_session
from cqrs_cli.words import counted


@command(
    app,
    "process",
    examples=[
        "cqrs process checkout",
        "cqrs process checkout --once -o json",
        "cqrs process checkout --from beginning",
        "cqrs process checkout --metrics-address 9500",
        "cqrs process checkout --skip checkout:order:3@250",
    ],
)
def run_process(
    cli: Cli,
    names: Annotated[
        list[str], argument("NAME", "Its file in `processes`.", complete=complete_from("processes"))
    ],
    once: Annotated[bool, option("--once", "React to what is there now, then end.")] = False,
    origin: Annotated[
        Literal["beginning", "end"], option("--from beginning|end", "Where a new process begins.")
    ] = "end",
    skip: Annotated[
        list[str] | None, option("--skip PROCESS:AGG:P@OFFSET", "Leave out the event that stopped it.")
    ] = None,
    accept_loss: Annotated[
        list[str] | None,
        option("--accept-loss PROCESS:AGG:P@OFFSET", "Go on there although its position is lost."),
    ] = None,
    metrics_address: MetricsAddress = None,
    *,
    spark: SparkOptions,
) -> None:
    """Turn events of one aggregate into commands of another, each event exactly once, until stopped.

    Commands and the position are one Kafka transaction. A later `cqrs process` of the same processes takes them over,
    and the earlier one ends with exit status 6. A new process begins at the end of the events, one that has begun goes
    on where it stands. An event that it cannot go past stops it with exit status 1, which names the event.
    """
    from cqrs_cli.cli.render.process import ProcessDisplay, reacted
    from cqrs_cli.following.processes.load import PROCESSES, load_process
    from cqrs_cli.following.processes.prepare import prepare_processes
    from cqrs_cli.jobs.run import run_processes
    from cqrs_cli.status.metrics import ProcessMetrics

    cli.timestamped = not sys.stderr.isatty()
    properties = LONG_LIVED | spark.apply(cli)
    address = metrics_at(metrics_address, None)
    settings = cli.settings
    names = list(dict.fromkeys(names))
    loaded = {name: load_process(name, settings.root, settings.aggregates) for name in names}
    with ExitStack() as stack:
        plan = prepare_processes(
            settings,
            cli.connection(),
            loaded,
            once=once,
            beginning=origin == "beginning",
            skip=skip or (),
            accept_loss=accept_loss or (),
        )
        metrics = None if address is None else (address, ProcessMetrics())
        display: ProcessDisplay = stack.enter_context(ProcessDisplay(cli, metrics))
        session = spark_session(cli, "process", names, properties, [PROCESSES])
        context, slots = stack.enter_context(session)
        tasks = min(len(plan.subscriptions), slots)
        where = f"{counted(len(plan.subscriptions), 'partition')}, {counted(tasks, 'task')}"
        cli.note(f"{', '.join(names)}: {where}; Ctrl-C stops")
        try:
            done = run_processes(context, plan, tasks, display.show, display.note)
        except KeyboardInterrupt:
            if display.last is not None:
                cli.note(f"stopped {reacted(display.last).text}")
            raise
    cli.result(*reacted(done))
