"""The findings of `cqrs keys`. Only ids of KEKs are printed, never a KEK."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.cli.result import Result, table
from cqrs_cli.column import Column, row_document

if TYPE_CHECKING:
    from cqrs_cli.kafka.kek_usage import MasterUse
    from cqrs_cli.keys.address import KeyRingAddress

_AFTER = {
    "made": [
        "keep a copy of it apart: what it has sealed is lost with it",
        "keep it out of git and of backups of Kafka",
    ],
    "rotated": [
        "start the runs again: they put all keys under it while idle",
        "see how far they are: cqrs keys status",
    ],
}
_BY_HAND = {
    "made": "put a ring of one key there",
    "rotated": "put a new key first there, before those of the ring that is there now",
}


def changed_ring(file: Path, how: str, master: str) -> Result:
    """Return the result for a keyring in a file, created or rotated."""
    done = (
        f"{file}: made, with the master key {master}"
        if how == "made"
        else f"{file}: {master} is the current master key"
    )
    return Result({"result": how, "place": f"file:{file}", "master": master}, [done, *_AFTER[how]])


def ring_by_hand(address: "KeyRingAddress", how: str, month: str) -> Result:
    """Return the next step for a keyring that is not in a file."""
    form = f'{{"{month}": "KEY IN BASE64"{"" if how == "made" else ", …"}}}'
    lines = [
        f"{address.shown} is not a file: {_BY_HAND[how]}, as JSON:",
        f"  {form}",
        "a new key: openssl rand -base64 64 | tr -d '\\n'",
        *_AFTER[how],
    ]
    return Result({"result": "by hand", "place": address.shown, "form": form}, lines)


class _Row(NamedTuple):
    """A KEK and its use by one aggregate."""

    aggregate: str
    master: str
    keys: int
    replaced: int
    state: str


_COLUMNS: Sequence[Column[_Row]] = (
    Column("aggregate", header="aggregate"),
    Column("master", header="master key"),
    Column("keys", header="keys", left=False),
    Column("replaced", header="replaced", left=False),
    Column("state", header="state"),
)


def keys_in_use(ring: Sequence[str], found: "Mapping[str, Mapping[str, MasterUse]]") -> Result:
    """Return the use of each KEK by each aggregate, then the unused KEKs. `ring`: key ids, the current id first."""
    rows = [
        _Row(aggregate, name, *(masters.get(name) or (0, 0)), _state(ring, name))
        for aggregate, masters in found.items()
        for name in dict.fromkeys([*ring, *masters])
    ]
    needed = {name for masters in found.values() for name, use in masters.items() if not use.is_unused}
    free = [name for name in ring[1:] if name not in needed]
    documents = [row_document(row, _COLUMNS) for row in rows]
    return Result(
        {"ring": list(ring), "masters": documents, "not_needed": free}, lambda: table(rows, _COLUMNS)
    )


def free_master(name: str) -> str:
    """Return the next step for a KEK without use."""
    return (
        f"nothing of these aggregates is under {name}: destroy it if nobody else has this ring;"
        " nobody can read backups of before then"
    )


def _state(ring: Sequence[str], name: str) -> str:
    if name not in ring:
        return "not in the ring" if ring else ""
    return "current" if name == ring[0] else "old"
