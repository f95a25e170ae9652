"""Index entries of outcomes, for the verification of deferrals."""

from collections.abc import Iterator
from typing import Any

import msgspec

from cqrs_cli.proof.traces import OutcomeTrace


class OutcomeIndex(dict[int, OutcomeTrace]):
    """A read-only index in memory."""

    def find_entry(self, command: int) -> bytes | None:
        return msgspec.msgpack.encode(self[command]) if command in self else None

    def entries(self) -> Iterator[tuple[int, bytes]]:
        return ((command, msgspec.msgpack.encode(trace)) for command, trace in sorted(self.items()))


def outcome_entry(status: str = "accepted", reason: str = "", **members: Any) -> OutcomeTrace:
    """Return the index entry of an outcome of command `x`, or of a command about it, at offset 10."""
    trace = OutcomeTrace(
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
    return msgspec.structs.replace(trace, **members)
