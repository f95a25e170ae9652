"""Index entries of outcomes, for the verification of deferrals."""

from collections.abc import Iterator
from typing import Any

import msgspec

from cqrs_cli.proof.index_entries import OutcomeEntry


class OutcomeIndex(dict[int, OutcomeEntry]):
    """A read-only index in memory."""

    def find_entry(self, command: int) -> bytes | None:
        return msgspec.msgpack.encode(self[command]) if command in self else None

    def entries(self) -> Iterator[tuple[int, bytes]]:
        return ((command, msgspec.msgpack.encode(entry)) for command, entry in sorted(self.items()))


def outcome_entry(status: str = "accepted", reason: str = "", **members: Any) -> OutcomeEntry:
    """Return the index entry of an outcome of command `x`, or of a command about it, at offset 10."""
    entry = OutcomeEntry(
        10,
        0,
        b"a",
        "way.Go",
        "a",
        "x",
        None,
        status,
        reason,
        1,
        0,
        None,
        5,
        None,
        None,
    )
    return msgspec.structs.replace(entry, **members)
