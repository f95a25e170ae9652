"""The findings of `cqrs keys`. Only ids of KEKs are printed, never a KEK."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.cli.result import Result, table
from cqrs_cli.column import Column, row_document

if TYPE_CHECKING:
    from cqrs_cli.keys.address import KeyRingAddress
    from cqrs_cli.keys.kek_usage import KekUsage

#: Action → the steps that follow it.
_NEXT_STEPS = {
    "made": [
        "back it up separately: without it, the data that it encrypts is lost",
        "keep it out of git and of backups of Kafka",
    ],
    "rotated": [
        "restart the runs: idle owners re-encrypt all data keys with it",
        "see the progress: cqrs keys status",
    ],
}
#: Action → the change to make by hand if the keyring is not in a file.
_INSTRUCTIONS = {
    "made": "store a keyring of one key there",
    "rotated": "insert a new key before the keys that are stored there",
}


def keyring_file_result(file: Path, action: str, kek_id: str) -> Result:
    """Return the result for a keyring in a file. `action`: "made" or "rotated"; `kek_id`: the new KEK."""
    text = (
        f"{file}: created, with the key-encryption key {kek_id}"
        if action == "made"
        else f"{file}: {kek_id} is the current key-encryption key"
    )
    return Result({"result": action, "place": f"file:{file}", "master": kek_id}, [text, *_NEXT_STEPS[action]])


def keyring_instructions(address: "KeyRingAddress", action: str, kek_id: str) -> Result:
    """Return the steps to create or rotate a keyring that is not in a file. `kek_id`: the id of the new KEK."""
    json_form = f'{{"{kek_id}": "KEY IN BASE64"{"" if action == "made" else ", …"}}}'
    lines = [
        f"{address.shown} is not a file: {_INSTRUCTIONS[action]}, as JSON:",
        f"  {json_form}",
        "a new key: openssl rand -base64 64 | tr -d '\\n'",
        *_NEXT_STEPS[action],
    ]
    return Result({"result": "by hand", "place": address.shown, "form": json_form}, lines)


class _Row(NamedTuple):
    """A KEK and its use by one aggregate."""

    aggregate: str
    master: str  # id of the KEK
    keys: int  # number of data keys that it encrypts
    replaced: int  # number of replaced records that compaction has not removed yet
    state: str


_COLUMNS: Sequence[Column[_Row]] = (
    Column("aggregate", header="aggregate"),
    Column("master", header="KEK"),
    Column("keys", header="keys", left_aligned=False),
    Column("replaced", header="replaced", left_aligned=False),
    Column("state", header="state"),
)


def key_usage_result(keyring: Sequence[str], usage: "Mapping[str, Mapping[str, KekUsage]]") -> Result:
    """Return the use of each KEK by each aggregate, then the unused KEKs. `keyring`: key ids, the current id first."""
    rows = [
        _Row(aggregate, name, *(keks.get(name) or (0, 0)), _kek_state(keyring, name))
        for aggregate, keks in usage.items()
        for name in dict.fromkeys([*keyring, *keks])
    ]
    needed_keks = {name for keks in usage.values() for name, use in keks.items() if not use.is_unused}
    unused_keks = [name for name in keyring[1:] if name not in needed_keks]
    documents = [row_document(row, _COLUMNS) for row in rows]
    return Result(
        {"ring": list(keyring), "masters": documents, "not_needed": unused_keks},
        lambda: table(rows, _COLUMNS),
    )


def unused_kek_note(name: str) -> str:
    """Return the next step for a KEK that no aggregate uses."""
    return (
        f"these aggregates do not use {name}: destroy it if no other project uses this keyring;"
        " older backups become unreadable"
    )


def _kek_state(keyring: Sequence[str], name: str) -> str:
    if name not in keyring:
        return "not in the keyring" if keyring else ""
    return "current" if name == keyring[0] else "old"
