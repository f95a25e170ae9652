"""The erase command, and the file of erasures, which are repeated after a restore from a backup."""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from cqrs_cli.client.compose import SOURCE
from cqrs_cli.client.envelope import ReadyCommand, create_command
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED
from cqrs_cli.core.erasure import ERASE, Erase
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.storage.private import opener

#: The file of erasures, in a project's folder.
ERASURES = "erasures.ndjson"


class Erasure(Struct, frozen=True, omit_defaults=True):
    """A line of the file: the aggregate and its id, the time, the id of the erase command, and the id of the data key
    that the command deletes.

    For example `{"aggregate": "customer", "id": "c-42", "time": "2026-11-21T01:02:03.000Z", "command": "…", "key":
    "…"}`. If `key` is missing, the key is unknown, unless another line with the same `command` has it. If `key` is
    null, the aggregate had no key.
    """

    aggregate: str
    id: str
    time: str | UnsetType = UNSET
    command: str | UnsetType = UNSET
    key: str | UnsetType | None = UNSET

    @classmethod
    def now(cls, command: ReadyCommand, key: str | UnsetType | None) -> "Erasure":
        """Return the line of an erase command, with the current time."""
        moment = rfc3339(time.time_ns() // 1_000_000)
        return cls(command.aggregate, command.subject, moment, command.id, key)


def require_personal(aggregate: Aggregate) -> None:
    """Raise `UsageError` for an aggregate without personal fields."""
    if not aggregate.has_personal_fields:
        raise UsageError(
            f"{aggregate.name} has no personal fields: there is nothing to erase",
            "annotate such fields in its commands, events and state: cqrs.Personal[…]",
        )


def erase_command(aggregate: str, aggregate_id: str, key: str | None = None) -> ReadyCommand:
    """Return the command that erases the personal fields of an aggregate. `key`: erase them only if this is the
    id of the aggregate's data key.
    """
    return create_command(aggregate, aggregate_id, ERASE, encode_json(Erase(key)), SOURCE)


def repeated_erasures(lines: Iterable[bytes]) -> list[ReadyCommand]:
    """Return the commands that repeat the erasures in `lines`, one for each data key. The lines are from the file of
    erasures, or printed by `cqrs tail -o json`.

    Each command names its data key. Otherwise it would also erase the data of a person with a new key, who has come
    back since the erasure.

    Raises `UsageError`, with the line number, for an invalid line, and for a line whose data key is unknown.
    """
    keys: dict[tuple[str, str, str], None] = {}  # (aggregate, id, key), in the order of the lines
    commands_with_key: set[str] = set()
    without_key: dict[int, Erasure] = {}  # line number → erasure
    for number, erasure in _read_erasures(lines):
        if erasure.key is UNSET:
            without_key[number] = erasure
            continue
        if erasure.command is not UNSET:
            commands_with_key.add(erasure.command)
        if erasure.key is not None:
            keys[erasure.aggregate, erasure.id, erasure.key] = None
    for number, erasure in without_key.items():
        if erasure.command not in commands_with_key:
            raise UsageError(
                f"line {number} has no key: it would also erase data that {erasure.aggregate} {erasure.id} got later",
                f"remove the line; if the data are to be erased, then: cqrs erase {erasure.aggregate} {erasure.id}",
            )
    return [erase_command(*arguments) for arguments in keys]


def _read_erasures(lines: Iterable[bytes]) -> Iterator[tuple[int, Erasure]]:
    """Yield (line number, erasure) for each line that is not blank."""
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        try:
            erasure = msgspec.convert(_erasure_members(line), Erasure)
        except (ValueError, TypeError, KeyError, RecursionError):  # msgspec's errors are ValueErrors
            raise UsageError(
                f"line {number} is not an erasure",
                'write it like {"aggregate":"customer","id":"c-42","key":"…"}',
            ) from None
        yield number, erasure


def _erasure_members(line: bytes) -> Any:
    """Return the members of an erasure, from a line of the file or from an `Erased` event printed by `cqrs tail`."""
    document = msgspec.json.decode(line)
    message = document.get("message") if isinstance(document, dict) else None
    if not isinstance(message, dict):
        return document
    if message.get("type") != ERASED:
        raise ValueError(f"the message is not of type {ERASED}")
    aggregate = str(message.get("source")).removeprefix("/cqrs/")
    return {"aggregate": aggregate, "id": message.get("subject"), "key": message["data"]["key"]}


class ErasureFile:
    """The file of erasures. It contains ids only, no erased data."""

    def __init__(self, path: Path) -> None:
        """Raises `ConfigurationError` if the file is not writable, before any aggregate is erased."""
        self.path = path
        self._append(b"")

    def append(self, erasure: Erasure) -> None:
        """Append the line of an erasure, and sync it to disk."""
        self._append(msgspec.json.encode(erasure) + b"\n")

    def _append(self, line: bytes) -> None:
        try:
            with open(self.path, "ab", opener=opener) as file:  # private: an id may name a person
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ConfigurationError(
                f"{self.path} cannot be written: {error.strerror}", "name another file: --erasures FILE"
            ) from None
