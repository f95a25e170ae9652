"""Outcomes as the proof of deferrals takes them."""

from collections.abc import Iterator
from typing import Any

import msgspec

from cqrs_cli.proof.traces import OutcomeTrace


class Outcomes(dict[int, OutcomeTrace]):
    """An index in memory, to be read only."""

    def get(self, command: int, default: Any = None) -> bytes | None:  # type: ignore[override]
        return msgspec.msgpack.encode(self[command]) if command in self else None

    def items(self) -> Iterator[tuple[int, bytes]]:  # type: ignore[override]
        return ((command, msgspec.msgpack.encode(trace)) for command, trace in sorted(super().items()))


def outcome(status: str = "accepted", reason: str = "", **members: Any) -> OutcomeTrace:
    """The outcome of command `x`, or of another one about it; at offset 10."""
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
