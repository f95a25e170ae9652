"""The address of a record in an option: `order:3@250`, or `checkout:order:3@250` for the process manager `checkout`."""

import re
from typing import NamedTuple

from cqrs_cli.errors import UsageError

_FORM = re.compile(r"(?:(?P<process>[^:@]+):)?(?P<aggregate>[^:@]+):(?P<partition>[0-9]+)@(?P<offset>[0-9]+)")


class NamedPlace(NamedTuple):
    """An offset in a partition of an aggregate. `process`: the process manager that reads there, or empty."""

    process: str
    aggregate: str
    partition: int
    offset: int


def parse_place(flag: str, text: str) -> NamedPlace:
    """Parse the value of the option `flag`; raises `UsageError` for text of another form."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{flag}: {text!r} is not a place in a topic",
            "write AGGREGATE:PARTITION@OFFSET, e.g. order:3@250, for a process checkout:order:3@250",
        )
    return NamedPlace(
        found["process"] or "", found["aggregate"], int(found["partition"]), int(found["offset"])
    )
