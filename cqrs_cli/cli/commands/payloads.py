"""`cqrs payloads`: the store of large payloads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cqrs_cli.cli.app import subgroup
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import argument, option
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.words import counted

if TYPE_CHECKING:
    from cqrs_cli.payloads.store import StoredPayload
    from cqrs_cli.payloads.sweep import Swept


payloads = subgroup("payloads", "The store of large payloads.")


@command(payloads, examples=["cqrs payloads gc --dry-run", "cqrs payloads gc bank_account -o json"])
def gc(
    cli: Cli,
    names: Annotated[
        list[str] | None, argument("AGGREGATE", "Only the payloads of these; default: of all.")
    ] = None,
    rehearse: Annotated[bool, option("--dry-run", "Count them, and change nothing.")] = False,
) -> None:
    """Remove the payloads that no record refers to: commands, events, dead letters and what is deferred are read.

    A payload that is unused and older than a day is put aside, into a folder where it is still read; a call a day later
    deletes it. One that has got its record meanwhile is brought back. Call it once a day.

    One cluster's records must be all that refers to the store: another's are not read.
    """
    from cqrs_cli.client.queries.payloads import named_payloads
    from cqrs_cli.core.messages.payload_reference import payload_folder
    from cqrs_cli.payloads.sweep import Sweep

    place = cli.settings.payloads()
    if place is None:
        raise ConfigurationError("no payload_store is set: there are no payloads", "set it in cqrs.toml")
    cli.check_aggregates(*names or ())
    connection = cli.connection()
    for name in dict.fromkeys(names or cli.aggregate_names()):
        topics = cli.topics(name)
        with cli.working(f"reading the records of {name}"):
            sweep = Sweep(place, payload_folder(topics.events))
            swept = sweep.sweep(named_payloads(connection, topics, sweep.questioned), rehearse)
        cli.row(_document(name, swept), _text(name, swept))
    if rehearse:
        cli.note("dry run: nothing was changed")


def _document(name: str, swept: "Swept") -> dict[str, Any]:
    return {
        "aggregate": name,
        "kept": swept.kept,
        "put_aside": _size(swept.put_aside),
        "brought_back": _size(swept.brought_back),
        "deleted": _size(swept.deleted),
    }


def _size(payloads: "Sequence[StoredPayload]") -> dict[str, int]:
    return {"payloads": len(payloads), "bytes": sum(one.size for one in payloads)}


def _text(name: str, swept: "Swept") -> str:
    parts = [counted(swept.kept, "payload") + " kept"]
    for word, some in (
        ("put aside", swept.put_aside),
        ("brought back", swept.brought_back),
        ("deleted", swept.deleted),
    ):
        if some:
            parts.append(f"{len(some):,} {word} ({sum(one.size for one in some):,} bytes)")
    return f"{name}: {', '.join(parts)}"
