"""Index entries of outcomes, for the verification of deferrals."""

from collections.abc import Iterator
from typing import Any

import msgspec

from cqrs_cli.proof.traces import OutcomeTrace


class Outcomes(dict[int, OutcomeTrace]):
    """A read-only index in memory."""

    def get(self, command: int, default: Any = None) -> bytes | None:  # type: ignore[override]
        return msgspec.msgpack.encode(self[command]) if command in self else None

    def items(self) -> Iterator[tuple[int, bytes]]:  # type: ignore[override]
        return ((command, msgspec.msgpack.encode(trace)) for command, trace in sorted(super().items()))


def outcome(status: str = "accepted", reason: str = "", **members: Any) -> OutcomeTrace:
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
