"""`cqrs top`: a live view of all partitions."""

import sys
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, duration, option
from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.cli.live.model import Choices
    from cqrs_cli.status.rates import Look


@command(app, examples=["cqrs top", "cqrs top bank_account order --every 5s"])
def top(
    cli: Cli,
    aggregates: AggregateNames = None,
    every: Annotated[str, option("TIME", "How often to look.")] = "1s",
) -> None:
    """Watch all partitions live: rates, lag, latency, owners and reasons; q ends it.

    Rates are those between the last two looks, not averages. Oldest is the age of the first command that waits; latency
    is what the last decided command took, from the broker's clock to the owner's. Reasons are of the last minute, of at
    most 500 outcomes for each partition and look. It says so where a command is on trial, takes long, or is hidden by
    an open transaction, and what owners and processes of this machine wait for. While partitions grow, it says what
    each has come to.

    Without names it shows processes, too, a row for each partition of events that one hears, as "checkout < order 0":
    sent are the events that came, decided those that it has read. A narrow terminal shows fewer columns.

    Keys sort the rows (n, s, d, r, l, o), fold them by aggregate (a), pause (p) and quit (q). It needs a terminal; off
    one use cqrs status.
    """
    interval = duration("--every", every).total_seconds()
    if interval < 0.1:
        raise UsageError(f"--every {every} is too often", "give 100ms or more")
    if cli.output == "json" or not (sys.stdin.isatty() and sys.stdout.isatty()):
        why = "draws a picture: it has no JSON" if cli.output == "json" else "needs a terminal"
        raise UsageError(f"cqrs top {why}", "for programs and logs use: cqrs status -o json")
    known = cli.aggregate_names()
    for name in set(aggregates or ()) - set(known):
        cli.aggregate(name)  # says which there are
    from cqrs_cli.cli.live.loop import LiveLook, show_live
    from cqrs_cli.cli.live.screen import picture
    from cqrs_cli.cli.processes import chosen_processes
    from cqrs_cli.status.reader import StatusReader

    topics = {name: cli.topics(name) for name in aggregates or known}
    if not topics:
        cli.usable(None)  # says how to begin
    connection = cli.connection()
    processes = [] if aggregates else chosen_processes(cli, connection, None)
    reader = StatusReader(
        connection,
        topics,
        cli.settings.state_dir,
        processes,
        prefix=cli.settings.topic_prefix,
        again=True,
        sampling=True,
    )

    def draw(seen: LiveLook, look: "Look", choices: "Choices") -> "RenderableType":
        return picture(look, choices, seen.reasons, seen.trouble, cli.stdout.width, cli.stdout.height)

    show_live(cli.stdout, reader.look, reader.close, interval, draw)
    for name, why_not in reader.missing.items():
        cli.note(f"{name}: {cli.with_flags(str(why_not))}")
