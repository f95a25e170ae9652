"""How far a partition is decided: which records must be there, and which may be missing."""

from dataclasses import dataclass

from cqrs_cli.proof.findings import Findings, LogName


@dataclass(frozen=True, slots=True)
class DecidedRange:
    """The commands that are decided, as seen before and after the logs were read, and where each log begins.

    Below `surely` everything must be there, from `at_most` on nothing may be; in between an owner was at work.
    """

    surely: int
    at_most: int
    commands: int = 0  # the first command that is not deleted yet
    outcomes: int = 0  # the first command whose outcome is not deleted yet
    dead_letters: int = 0  # the first command whose dead letter would not be deleted yet
    began_again: bool = (
        False  # after an accepted loss the commands topic is a new one; little is known of the old one
    )


class Losses:
    """Missing records: violations, unless an owner was at work or an operator accepted the loss."""

    def __init__(self, decided: DecidedRange, accepted: int | None, findings: Findings) -> None:
        self._decided = decided
        self._accepted = accepted
        self._findings = findings

    def missing(self, command: int, kind: LogName, at: int, what: str) -> None:
        """Report a missing record of a command; `kind` and `at` name the record that shows it."""
        if command >= self._decided.surely:
            return
        if self._accepted is not None and command < self._accepted:
            self._findings.accepted += 1
        else:
            self._findings.add(kind, at, what)

    def follow(self, command: int, before: int | None) -> bool:
        """Whether `command` is an aggregate's first after an accepted loss, so that its version need not follow the
        known one, to which the command `before` led.
        """
        loss = self._accepted
        lost = bool(self._findings.accepted) and loss is not None and command >= loss
        return lost and (before is None or before < (loss or 0))
