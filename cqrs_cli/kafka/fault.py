"""The words about a record that cannot be read, or that does not follow: its place, and how to look at it."""

from dataclasses import dataclass
from typing import Any

from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.topics.topics import Kind


def tail_command(aggregate: str, kind: Kind, partition: int, offset: int) -> str:
    """The command that shows a record."""
    return f"cqrs tail {aggregate} {kind} --partition {partition} --from {offset} -n 1"


@dataclass(frozen=True, slots=True)
class PlacedFault:
    """A fault at a place of one of an aggregate's topics."""

    topic: str
    kind: Kind
    partition: int
    offset: int
    what: str

    def document(self) -> dict[str, Any]:
        """The same for programs."""
        return {"topic": self.topic, "partition": self.partition, "offset": self.offset, "what": self.what}

    def error(self, what: str, aggregate: str) -> ContradictionError:
        """The error for several, of which this is the first; `what` says what they are."""
        look = tail_command(aggregate, self.kind, self.partition, self.offset)
        return ContradictionError(what, f"look at the first: {look}")


def record_fault(
    aggregate: str,
    kind: Kind,
    topic: str,
    partition: int,
    offset: int,
    error: Exception | str,
    also: str = "",
) -> ContradictionError:
    """The error for a record of one of the aggregate's topics. `error` says what is wrong with it; `also`: what may
    help besides looking at it.
    """
    return ContradictionError(
        f"{topic} partition {partition} offset {offset}: {error}",
        f"look at it: {tail_command(aggregate, kind, partition, offset)}{also and '; '}{also}",
    )
