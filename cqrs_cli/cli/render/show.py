"""The text of `cqrs show`: an aggregate's state and history."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import json_line, printable
from cqrs_cli.cli.result import table
from cqrs_cli.column import Column

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.client.history import AggregateHistory
    from cqrs_cli.core.messages.event import EventEnvelope

FIELDS: tuple[Column[tuple[str, Any]], ...] = (
    Column("name", lambda field: field[0], "field"),
    Column("value", lambda field: field[1], "value", lambda value: json_line(value).decode()),
)

EVENTS: "tuple[Column[EventEnvelope], ...]" = (
    Column("aggregateversion", header="version", text=str, no_wrap=True),
    Column("time", header="time", no_wrap=True),
    Column("type", lambda event: event.type.partition(".")[2], "event", no_wrap=True),
    Column("data", lambda event: bytes(event.data).decode(errors="replace"), "data"),
    Column("causationid", header="caused by", no_wrap=True),
)


def versions_result(aggregate: str, versions: Mapping[str, int]) -> tuple[dict[str, Any], list[str]]:
    """Return the ids and versions of an aggregate as a document, and as lines."""
    rows = [{"id": aggregate_id, "version": version} for aggregate_id, version in versions.items()]
    lines = [f"{printable(aggregate_id)}  version {version}" for aggregate_id, version in versions.items()]
    return {"aggregate": aggregate, "aggregates": rows}, lines or [f"no {aggregate} has events"]


def show_text(aggregate: str, id: str, history: "AggregateHistory", with_events: bool) -> "RenderableType":
    """Return the version and the state of an aggregate, and its events if requested."""
    import msgspec
    from rich.console import Group
    from rich.text import Text

    time_text = f"since {history.time}" if history.time else "it did not exist yet"
    title = Text(printable(f"{aggregate} {id}  version {history.version}, {time_text}"))
    state = table(msgspec.to_builtins(history.state).items(), FIELDS, with_headers=False, margin=2)
    if not with_events:
        return Group(title, state)
    return Group(title, state, Text(), table(history.events, EVENTS))
