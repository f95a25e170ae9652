"""`cqrs show`: one aggregate, as its events tell it."""

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName
from cqrs_cli.cli.output import printable
from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.client.history import AggregateHistory
    from cqrs_cli.core.messages.event import EventEnvelope

#: Records from which on reading takes long enough to say so.
LONG = 200_000


@command(
    app,
    examples=[
        "cqrs show bank_account acc-42",
        "cqrs show bank_account acc-42 --history",
        "cqrs show bank_account acc-42 --at 3",
        "cqrs show bank_account acc-42 --at 2026-11-21T01:02:03Z -o json",
    ],
)
def show(
    cli: Cli,
    aggregate: AggregateName,
    id: Annotated[str, typer.Argument(metavar="ID", help="Which one of them.")],
    at: Annotated[
        str | None,
        typer.Option(metavar="VERSION|TIME", help="As it was at a version, or at a time (RFC 3339)."),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Its events, too.")] = False,
) -> None:
    """Show an aggregate's state and version, folded from its committed events.

    What does not exist has version 0 and the initial state. At a time it is everything up to its last version whose
    time is not later. All events of its partition are read for this.
    """
    from cqrs_cli.client import history as queries

    within = queries.parse_at(at)
    loaded = cli.aggregate(aggregate)
    key = id.encode(errors="surrogateescape")
    connection = cli.connection()
    places = queries.find_ranges(connection, cli.topics(aggregate).events, key, cli.settings.partitioner)
    count = sum(place.end - place.start for place in places)
    with cli.working(f"reading {count:,} events") if count > LONG else nullcontext():
        shown = queries.fold_history(loaded, id, queries.read_records(connection, key, places), within)
    if at is not None and at.isdigit() and shown.version < int(at):
        raise UsageError(
            f"{aggregate} {id} is at version {shown.version}, not {at}", "leave --at out to see it"
        )
    cli.result(_document(aggregate, id, shown, history), partial(_text, aggregate, id, shown, history))


def _document(aggregate: str, id: str, shown: "AggregateHistory", history: bool) -> dict[str, Any]:
    document = {
        "aggregate": aggregate,
        "id": id,
        "version": shown.version,
        "state": shown.state,
        "time": shown.time,
    }
    if history:
        document["history"] = [_event(event) for event in shown.events]
    return document


def _event(event: "EventEnvelope") -> dict[str, Any]:
    return {
        "version": event.aggregateversion,
        "time": event.time,
        "type": event.type,
        "data": event.data,
        "id": event.id,
        "causationid": event.causationid,
        "correlationid": event.correlationid,
    }


def _text(aggregate: str, id: str, shown: "AggregateHistory", history: bool) -> "RenderableType":
    import msgspec
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    when = f"since {shown.time}" if shown.time else "it does not exist"
    state = Table(box=None, show_header=False, padding=(0, 2))
    for name, value in msgspec.to_builtins(shown.state).items():
        state.add_row(Text(name), Text(printable(msgspec.json.encode(value).decode())))
    parts: list[RenderableType] = [
        Text(printable(f"{aggregate} {id}  version {shown.version}, {when}")),
        state,
    ]
    if history:
        events = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
        for header in ("version", "time", "event", "data", "caused by"):
            events.add_column(header, no_wrap=header != "data", overflow="fold")
        for event in shown.events:
            cells = (
                str(event.aggregateversion),
                event.time,
                event.type.removeprefix(f"{aggregate}."),
                bytes(event.data).decode(errors="replace"),
                event.causationid,
            )
            events.add_row(*(Text(printable(cell)) for cell in cells))
        parts += [Text(), events]
    return Group(*parts)
