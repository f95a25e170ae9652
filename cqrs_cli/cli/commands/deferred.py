"""`cqrs deferred`: list, cancel or release the commands that wait."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, OnlyAggregateId, OnlyCommandId, OnlyCommandTypes, deadline
from cqrs_cli.cli.output import printable
from cqrs_cli.errors import UsageError
from cqrs_cli.words import counted

if TYPE_CHECKING:
    from cqrs_cli.core.deferral.entry import Deferral


@command(
    app,
    examples=[
        "cqrs deferred list bank_account",
        "cqrs deferred list bank_account --aggregate-id acc-42 -o json",
        "cqrs deferred release bank_account --reason LATER --dry-run",
        "cqrs deferred cancel bank_account --id 0198f2c4-7c1e-7b8a-9d55-0d6f3a1b2c3d",
        "cqrs deferred cancel bank_account --all",
    ],
)
def deferred(
    cli: Cli,
    action: Annotated[
        Literal["list", "release", "cancel"],
        typer.Argument(metavar="ACTION", help="list, release or cancel."),
    ],
    aggregate: AggregateName,
    id: OnlyCommandId = None,
    aggregate_id: OnlyAggregateId = None,
    types: OnlyCommandTypes = None,
    reason: Annotated[
        Literal["NOT_YET", "LATER"] | None,
        typer.Option("--reason", metavar="NOT_YET|LATER", help="Only what waits for this."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="TIME", help="Only what is due before: 1h from now, or a time."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Release or cancel without a filter.")] = False,
    rehearse: Annotated[bool, typer.Option("--dry-run", help="List them, and send nothing.")] = False,
) -> None:
    """List the commands that wait, by due time; or release or cancel them.

    In the list a command is `parked` until it is due, then `released` until it is decided; or `cancelled`.

    What is released is decided now, what is cancelled ends rejected, CANCELLED. Both are commands in the log, decided
    by the aggregate's owner: one that is being decided meanwhile may be too late to cancel. Its outcome says so.
    """
    from cqrs_cli.client.queries.deferred import waiting

    if aggregate not in cli.aggregate_names():
        cli.aggregate(aggregate)  # says which there are
    narrowed = any(one is not None for one in (id, aggregate_id, types, reason, before))
    if action != "list" and not (narrowed or everything):
        raise UsageError(
            f"{action} what?", "name it: --id, --aggregate-id, --type, --reason or --before; or --all"
        )
    keep = _filter(aggregate, id, aggregate_id, types or [], reason, before)
    connection = cli.connection()
    with cli.working("reading"):
        found = waiting(connection, cli.topics(aggregate), keep)
    if action == "list" or rehearse:
        for entry in found:
            cli.row(deferral_document(entry), deferral_line(entry))
        cli.flush()
        if not found:
            cli.note("no command like that waits" if narrowed else "no command waits")
        elif action != "list":
            cli.note(f"dry run: {counted(len(found), 'command')} to {action}, nothing was sent")
        return
    _send(cli, aggregate, found, "cqrs.Cancel" if action == "cancel" else "cqrs.Release")


def _filter(
    aggregate: str,
    id: str | None,
    aggregate_id: str | None,
    types: list[str],
    reason: str | None,
    before: str | None,
) -> "Callable[[Deferral], bool]":
    from cqrs_cli.client.queries.deferred import command_type

    until = None if before is None else deadline("--before", before)
    wanted = {name if "." in name else f"{aggregate}.{name}" for name in types}

    def keep(entry: "Deferral") -> bool:
        return (
            (id is None or entry.id == id)
            and (aggregate_id is None or entry.subject == aggregate_id)
            and (reason is None or entry.reason == reason)
            and (until is None or entry.due < until)
            and (not wanted or command_type(entry) in wanted)
        )

    return keep


def _send(cli: Cli, aggregate: str, entries: "list[Deferral]", request: str) -> None:
    from cqrs_cli.cli.render.send import all_sent_document, all_sent_text
    from cqrs_cli.client.producer import CommandProducer
    from cqrs_cli.client.queries.deferred import requests
    from cqrs_cli.client.send import send_all

    with CommandProducer(cli.connection(), cli.settings.partitioner, bulk=True) as producer:
        topics = {aggregate: cli.topics(aggregate)}
        sent = send_all(producer, topics, requests(aggregate, entries, request), lambda count: None)
    cli.result(all_sent_document(sent), all_sent_text(sent))


def deferral_document(entry: "Deferral") -> dict[str, Any]:
    """A deferred command as JSON."""
    import msgspec

    from cqrs_cli.core.messages.timestamps import rfc3339

    return {
        "id": entry.id,
        "aggregate_id": entry.subject,
        "due": rfc3339(entry.due),
        "reason": entry.reason,
        "attempt": entry.attempt,
        "state": _state(entry),
        "offset": entry.offset,
        "said": entry.said,
        "cancelled": entry.cancelled,
        "command": msgspec.Raw(entry.command),
    }


def _state(entry: "Deferral") -> str:
    return "cancelled" if entry.cancelled else "released" if entry.said is not None else "parked"


def deferral_line(entry: "Deferral") -> str:
    """A deferred command as one line of text."""
    from cqrs_cli.client.queries.deferred import command_type
    from cqrs_cli.core.messages.timestamps import rfc3339

    tried = f"attempt {entry.attempt}" if entry.attempt else ""
    parts = (
        rfc3339(entry.due),
        f"{_state(entry):<9}",
        entry.subject,
        command_type(entry),
        entry.id,
        entry.reason,
        tried,
    )
    return printable("  ".join(parts).rstrip())
