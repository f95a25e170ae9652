"""Errors for records that cannot be read or are inconsistent. The errors contain the command that shows the record."""

from dataclasses import dataclass
from typing import Any

from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.topics.topics import ExtraKind, Kind


def tail_command(aggregate: str, kind: Kind | ExtraKind, partition: int, offset: int) -> str:
    """Return the command that shows a record."""
    return f"cqrs tail {aggregate} {kind} --partition {partition} --from {offset} -n 1"


@dataclass(frozen=True, slots=True)
class RecordFault:
    """A fault in a record of an aggregate."""

    topic: str
    kind: Kind | ExtraKind
    partition: int
    offset: int
    what: str  # the predicate of the message, such as "is NOT_FOUND without an expected version"

    def document(self) -> dict[str, Any]:
        """Return the fault as a JSON object."""
        return {"topic": self.topic, "partition": self.partition, "offset": self.offset, "what": self.what}

    def error(self, message: str, aggregate: str) -> ContradictionError:
        """Return the error for several faults, of which this is the first."""
        if self.kind in ("deferred", "keys", "lineage"):  # `cqrs tail` does not read these topics
            hint = f"the first is offset {self.offset} of {self.topic} partition {self.partition}"
        else:
            hint = f"look at the first: {tail_command(aggregate, self.kind, self.partition, self.offset)}"
        return ContradictionError(message, hint)


def record_fault(
    aggregate: str,
    kind: Kind,
    topic: str,
    partition: int,
    offset: int,
    error: Exception | str,
    extra_hint: str = "",
) -> ContradictionError:
    """Return the error for a record of one of the aggregate's topics. `error`: the problem. `extra_hint`: another hint
    besides the command that shows the record.
    """
    hint = f"look at it: {tail_command(aggregate, kind, partition, offset)}"
    if extra_hint:
        hint = f"{hint}; {extra_hint}"
    return ContradictionError(f"{topic} partition {partition} offset {offset}: {error}", hint)
