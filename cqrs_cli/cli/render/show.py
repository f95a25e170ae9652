"""An aggregate's state and history for people."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import json_line, printable
from cqrs_cli.cli.result import table
from cqrs_cli.column import Column

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.client.history import AggregateHistory
    from cqrs_cli.core.messages.event import EventEnvelope

FIELDS: tuple[Column[tuple[str, Any]], ...] = (
    Column("name", lambda one: one[0], "field"),
    Column("value", lambda one: one[1], "value", lambda value: json_line(value).decode()),
)

EVENTS: "tuple[Column[EventEnvelope], ...]" = (
    Column("aggregateversion", header="version", text=str, no_wrap=True),
    Column("time", header="time", no_wrap=True),
    Column("type", lambda one: one.type.partition(".")[2], "event", no_wrap=True),
    Column("data", lambda one: bytes(one.data).decode(errors="replace"), "data"),
    Column("causationid", header="caused by", no_wrap=True),
)


def show_text(aggregate: str, id: str, shown: "AggregateHistory", history: bool) -> "RenderableType":
    import msgspec
    from rich.console import Group
    from rich.text import Text

    when = f"since {shown.time}" if shown.time else "it does not exist"
    head = Text(printable(f"{aggregate} {id}  version {shown.version}, {when}"))
    state = table(msgspec.to_builtins(shown.state).items(), FIELDS, headers=False, margin=2)
    if not history:
        return Group(head, state)
    return Group(head, state, Text(), table(shown.events, EVENTS))
