"""`cqrs status`: how far each partition is, and who owns it."""

import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, check_sqlalchemy, option
from cqrs_cli.cli.processes import usable_processes
from cqrs_cli.cli.render.status import status_document, status_text
from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.cli.live.loop import LiveLook
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.status.place import PlaceStatus
    from cqrs_cli.status.rates import Look
    from cqrs_cli.status.reader import StatusReader

#: Seconds from one look to the next with `--watch`.
INTERVAL = 1.0


@command(
    app,
    examples=[
        "cqrs status",
        "cqrs status bank_account --watch",
        "cqrs status bank_account --digest -o json",
        "cqrs status --projections sqlite:///projections.db",
    ],
)
def status(
    cli: Cli,
    aggregates: AggregateNames = None,
    with_digest: Annotated[
        bool, option("--digest", "Sum up the states on this machine, as replay does.")
    ] = False,
    watching: Annotated[bool, option("--watch -w", "Look again every second, until Ctrl-C or q.")] = False,
    projections: Annotated[
        str | None, option("--projections URL", "The projections in this database, too.")
    ] = None,
) -> None:
    """Show lag, owner, speed and state of every partition.

    The owner is the run that committed last; its speed is that of now, and takes half a second to see. State is what
    this machine holds of the partition on disk: nothing, where another machine owns it, or states are in memory (the
    setting store). Aggregates without topics are left out, and named as missing in JSON; without any that has them it
    ends with 3. A client's transaction that is left open hides the commands after it: it is named with how to end it.
    So is a command on which workers die, one that its owner on this machine has been deciding for seconds, and what
    owners and processes of this machine wait for, such as a payload.

    While partitions grow, the column growth says what each has come to: its topics grow, it waits for its parent's
    split, adopts what waits, or has begun; a parent settles, then it has split.

    Without names it shows the project's processes, too: how far each has reacted, its owner, and the event that
    stopped it, with the way out.

    With --watch a terminal shows tables that change: p pauses, q ends it. Elsewhere each look is a table with its time,
    with -o json a line. cqrs top shows more, live. A narrow terminal shows fewer columns.
    """
    from cqrs_cli.cli.clocks import note_clock
    from cqrs_cli.status.reader import StatusReader

    if watching and with_digest:
        raise UsageError("--digest reads all states: not every second", "leave out --digest or --watch")
    if watching and projections:
        raise UsageError("--projections is not watched", "watch cqrs project --metrics-address instead")
    names, connection = cli.usable(aggregates), cli.connection()
    reader = StatusReader(
        connection,
        {name: cli.topics(name) for name in names},
        cli.settings.state_dir,
        [] if aggregates else usable_processes(cli, None),
        prefix=cli.settings.topic_prefix,
        again=watching,
    )
    for name, why in reader.missing.items():
        if aggregates:
            raise why
        cli.note(f"{name}: {cli.with_flags(str(why))}")
    note_clock(cli, connection)
    if watching:
        _watch(cli, reader)
        return
    with closing(reader):
        summed = {name: one.state for name, one in names.items()} if with_digest else {}
        look = reader.with_states(reader.look_twice(), cli.settings.store, summed)
    if projections is not None:
        look = look._replace(places=(*look.places, *_projected(cli, connection, projections)))
    _show(cli, look, with_digest)


def _projected(cli: Cli, connection: "Connection", url: str) -> "list[PlaceStatus]":
    check_sqlalchemy()
    from cqrs_cli.following.projections.database import parse_database
    from cqrs_cli.status.projected import projected_places

    return projected_places(connection, parse_database(url, cli.settings.root, "--projections"))


def _show(cli: Cli, look: "Look", with_digest: bool = False) -> None:
    store = cli.settings.store
    cli.result(
        status_document(look, store, with_digest),
        lambda: status_text(look, store, with_digest, width=cli.stdout.width),
    )


def _watch(cli: Cli, reader: "StatusReader") -> None:
    """Look every second: on a terminal until `q`, elsewhere for ever. Without a broker it says so, and looks again."""
    from cqrs_cli.cli.live.loop import looks, show_live

    def look() -> "Look":
        return reader.with_states(reader.look(), cli.settings.store)

    if cli.output == "text" and sys.stdout.isatty():
        show_live(cli.stdout, look, reader.close, INTERVAL, partial(_draw, cli), screen=False)
        return
    with closing(reader):
        for number, seen in enumerate(looks(look, INTERVAL, cli.note, time.sleep)):
            if not number:
                continue  # it has no rates yet
            if cli.output == "text":
                cli.line(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}".encode())
            _show(cli, seen)
            cli.flush()


def _draw(cli: Cli, seen: "LiveLook", look: "Look", _: object) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    trouble = [Text(f"{seen.trouble}; still trying")] if seen.trouble else []
    return Group(status_text(look, cli.settings.store, width=cli.stdout.width), *trouble)
