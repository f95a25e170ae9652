"""The notation of a position in options and output: `LOG:PARTITION@OFFSET`.

`LOG` is a topic (`order.events:3@250`), an aggregate (`order:3@250`) or a subscription (`checkout:order:3@250`). It is
left out if the log is evident: `3@250`. Stored records have another notation: `3/250`.
"""

import re
from typing import NamedTuple

from cqrs_cli.errors import UsageError

_POSITION = re.compile(
    r"(?:(?P<process>[^:@]+):)?(?P<aggregate>[^:@]+):(?P<partition>[0-9]+)@(?P<offset>[0-9]+)"
)


class NamedPosition(NamedTuple):
    """An offset in a partition of an aggregate, or of a process manager's subscription."""

    process: str  # name of the process manager; empty without a subscription
    aggregate: str
    partition: int
    offset: int


def format_position(partition: object, offset: object, log: str = "") -> str:
    """Return a position in this notation; without `log`, the name is left out."""
    return f"{log}:{partition}@{offset}" if log else f"{partition}@{offset}"


def parse_position(flag: str, text: str) -> NamedPosition:
    """Return the position in the value of a flag; raises `UsageError` for text of another form."""
    match = _POSITION.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{flag}: {text!r} is not a position in a topic",
            "write AGGREGATE:PARTITION@OFFSET, e.g. order:3@250, for a process manager checkout:order:3@250",
        )
    return NamedPosition(
        match["process"] or "", match["aggregate"], int(match["partition"]), int(match["offset"])
    )
