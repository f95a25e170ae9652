"""Selections of dead letters and deferred commands, for the command line and the console."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass

from cqrs_cli.client.queries.dead_letters import FailedCommand
from cqrs_cli.client.queries.deferred import command_type
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.errors import UsageError


@dataclass(frozen=True)
class CommandSelection:
    """Selects commands. An attribute that is None or empty selects all commands."""

    id: str | None = None
    aggregate_id: str | None = None
    types: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """True if an attribute limits the selection."""
        return any(value not in (None, ()) for value in astuple(self))

    def selects(self, aggregate: str, id: str, subject: str | None, message_type: str | None) -> bool:
        """True if a command with these attributes is selected."""
        wire_types = [name if "." in name else f"{aggregate}.{name}" for name in self.types]
        return (
            (self.id is None or id == self.id)
            and (self.aggregate_id is None or subject == self.aggregate_id)
            and (not wire_types or message_type in wire_types)
        )


@dataclass(frozen=True)
class LetterSelection(CommandSelection):
    """Selects dead letters by the attributes of their command, by reason, and by time in ms: since ≤ time < before."""

    reasons: tuple[str, ...] = ()
    since: int | None = None
    before: int | None = None

    def selects_letter(self, aggregate: str, letter: FailedCommand) -> bool:
        """True if the dead letter is selected. `since` is not checked, because the caller reads only from that time."""
        command = letter.command
        subject, message_type = (command.subject, command.type) if command else (None, None)
        return (
            self.selects(aggregate, letter.id, subject, message_type)
            and (not self.reasons or letter.reason in self.reasons)
            and (self.before is None or letter.record.timestamp < self.before)
        )


@dataclass(frozen=True)
class DeferralSelection(CommandSelection):
    """Selects deferred commands by their attributes, by reason, and by due time in ms: due < before."""

    reason: str | None = None
    before: int | None = None

    def selects_deferral(self, aggregate: str, entry: Deferral) -> bool:
        """True if the deferred command is selected."""
        return (
            self.selects(aggregate, entry.id, entry.subject, command_type(entry))
            and (self.reason is None or entry.reason == self.reason)
            and (self.before is None or entry.due < self.before)
        )


def check_letter_reasons(name: str, reasons: Iterable[str]) -> None:
    """Raise `UsageError` for a reason for which no command fails. `name`: the argument's name for the message."""
    failing_reasons = [reason.name for reason in Reason if reason.status == "failed"]
    for reason in reasons:
        if reason not in failing_reasons:
            raise UsageError(
                f"{name}: no command fails for the reason {reason!r}",
                f"known reasons: {', '.join(failing_reasons)}",
            )
