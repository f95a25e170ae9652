"""What to say about a record that cannot be read, or that does not follow: its place, and how to look at it."""

from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.topics.topics import Kind


def tail_command(aggregate: str, kind: Kind, partition: int, offset: int) -> str:
    """The command that shows a record."""
    return f"cqrs tail {aggregate} {kind} --partition {partition} --from {offset} -n 1"


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
