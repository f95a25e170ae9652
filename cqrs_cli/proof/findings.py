"""The violations that a proof finds, each with its place."""

from typing import Literal, NamedTuple

LogName = Literal["commands", "events", "outcomes", "dead-letters"]

#: Violations of a partition that are named. All are counted; naming only some keeps memory bounded.
MAX_NAMED = 100


class Violation(NamedTuple):
    """What is wrong with the record at `offset` of a topic; reads on from `topic partition offset`."""

    kind: LogName
    offset: int
    what: str


class Findings:
    """Violations of one partition. `accepted` counts missing records whose loss an operator accepted."""

    def __init__(self) -> None:
        self.named: list[Violation] = []
        self.count = 0
        self.accepted = 0

    def add(self, kind: LogName, offset: int, what: str) -> None:
        """Count a violation, and name it unless there are too many."""
        self.count += 1
        if len(self.named) < MAX_NAMED:
            self.named.append(Violation(kind, offset, what))
