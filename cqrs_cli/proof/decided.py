"""How far a partition is decided: what has to be there, and what may be missing."""

from dataclasses import dataclass

from cqrs_cli.proof.findings import Findings, Kind


@dataclass(frozen=True, slots=True)
class Decided:
    """Seen before and after the logs were read, and where those begin to tell.

    Below `surely` everything has to be there, from `at_most` on nothing may be; in between an owner was at work.
    """

    surely: int
    at_most: int
    commands: int = 0  # the first command that is not deleted yet
    outcomes: int = 0  # the first command whose outcome is not deleted yet
    letters: int = 0  # the first command whose dead letter would not be
    began_again: bool = (
        False  # an accepted loss led to a new commands topic: of the old one little can be told
    )


class Losses:
    """What is missing: a violation, unless an owner was at work or an operator accepted it."""

    def __init__(self, decided: Decided, accepted: int | None, findings: Findings) -> None:
        self._decided = decided
        self._accepted = accepted
        self._findings = findings

    def lacks(self, command: int, kind: Kind, at: int, what: str) -> None:
        """Something of a command is not there; seen at a record of a topic."""
        if command >= self._decided.surely:
            return
        if self._accepted is not None and command < self._accepted:
            self._findings.accepted += 1
        else:
            self._findings.add(kind, at, what)

    def follow(self, command: int, before: int | None) -> bool:
        """Whether `command` is an aggregate's first after an accepted loss, so that it need not follow `before`, the
        one that led to the version known.
        """
        loss = self._accepted
        lost = bool(self._findings.accepted) and loss is not None and command >= loss
        return lost and (before is None or before < (loss or 0))
