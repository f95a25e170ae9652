"""What a proof finds: violations, each with its place."""

from typing import Literal, NamedTuple

Kind = Literal["commands", "events", "outcomes", "dead-letters"]

#: So many violations of a partition are named; all are counted, so that memory stays bounded whatever is wrong.
NAMED = 100


class Violation(NamedTuple):
    """What is wrong with the record at `offset` of a topic; reads on from `topic partition offset`."""

    kind: Kind
    offset: int
    what: str


class Findings:
    """Violations of one partition. `accepted` counts what is missing, and an operator has accepted as lost."""

    def __init__(self) -> None:
        self.named: list[Violation] = []
        self.count = 0
        self.accepted = 0

    def add(self, kind: Kind, offset: int, what: str) -> None:
        """Count a violation, and name it unless there are too many."""
        self.count += 1
        if len(self.named) < NAMED:
            self.named.append(Violation(kind, offset, what))
