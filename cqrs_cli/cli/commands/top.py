"""`cqrs top`: a live view of all partitions."""

import sys
from math import inf
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, duration_option, option
from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.cli.live.model import DisplayOptions
    from cqrs_cli.status.rates import StatusSnapshot


@command(app, examples=["cqrs top", "cqrs top bank_account order --every 5s"])
def top(
    cli: Cli,
    aggregates: AggregateNames = None,
    every: Annotated[str, option("TIME", "Polling interval.")] = "1s",
) -> None:
    """Watch lag, rates and owners of all partitions live, and the reasons of rejections; q quits.

    A rate covers the time since the last poll. Without names, the table also has process managers: "checkout < order 0"
    is the process manager checkout at partition 0 of order. docs/operations.md explains the columns.

    The last line lists the keys to pause, group and sort. The command needs a terminal; programs use cqrs status.
    """
    interval = duration_option("--every", every).total_seconds()
    if interval < 0.1:
        raise UsageError(f"--every {every} is too often", "give 100ms or more")
    if cli.output == "json" or not (sys.stdin.isatty() and sys.stdout.isatty()):
        reason = "has no JSON output" if cli.output == "json" else "needs a terminal"
        raise UsageError(f"cqrs top {reason}", "for programs and logs use: cqrs status -o json")
    project_aggregates = cli.aggregate_names()
    for name in set(aggregates or ()) - set(project_aggregates):
        cli.aggregate(name)  # raises an error that lists the existing aggregates
    from cqrs_cli.cli.live.loop import LiveSnapshot, show_live
    from cqrs_cli.cli.live.screen import render_screen
    from cqrs_cli.cli.processes import selected_processes
    from cqrs_cli.status.reader import StatusReader

    topics = {name: cli.topics(name) for name in aggregates or project_aggregates}
    if not topics:
        cli.usable_aggregates(None)  # raises an error that names the first step
    connection = cli.connection(start_broker=False)
    processes = [] if aggregates else selected_processes(cli, connection, None)
    reader = StatusReader(
        connection,
        topics,
        cli.settings.state_dir,
        processes,
        prefix=cli.settings.topic_prefix,
        confirm_hidden=True,
        max_samples=inf,
    )

    def draw(live: LiveSnapshot, snapshot: "StatusSnapshot", options: "DisplayOptions") -> "RenderableType":
        return render_screen(snapshot, options, live.reasons, live.error, cli.stdout.width, cli.stdout.height)

    show_live(cli.stdout, reader.poll_statuses, reader.close, interval, draw)
    for name, error in reader.missing.items():
        cli.print_note(f"{name}: {cli.with_flags(str(error))}")
