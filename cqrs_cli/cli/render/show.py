"""An aggregate that `cqrs show` folded, for people."""

from typing import TYPE_CHECKING

from cqrs_cli.cli.output import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.client.history import AggregateHistory


def show_text(aggregate: str, id: str, shown: "AggregateHistory", history: bool) -> "RenderableType":
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
