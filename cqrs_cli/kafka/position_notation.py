"""The notation of a position in a log, in options and output: `PARTITION@OFFSET`, after the name of the log.

The name is a topic, `order.events:3@250`, an aggregate, `order:3@250`, or a subscription, `checkout:order:3@250`. Where
the log is evident the name is left out: `3@250`. Ids in stored records have another notation, `3/250`.
"""

import re
from typing import NamedTuple

from cqrs_cli.errors import UsageError

_POSITION = re.compile(
    r"(?:(?P<process>[^:@]+):)?(?P<aggregate>[^:@]+):(?P<partition>[0-9]+)@(?P<offset>[0-9]+)"
)


class NamedPosition(NamedTuple):
    """An offset in a partition of an aggregate. `process`: the process manager that reads there, or empty."""

    process: str
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
