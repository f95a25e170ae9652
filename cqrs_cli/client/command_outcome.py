"""The outcome of a command, as `Client` returns it."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from cqrs_cli.client.envelope import ReadyCommand
from cqrs_cli.client.outcomes import is_failure
from cqrs_cli.core.messages.outcome import DeferredTarget, Original, OutcomeEnvelope


class CommandOutcome(Struct, frozen=True):
    """The decision on a command: the members of its outcome. A member that does not apply is None.

    `ok` is true for `accepted`, `unchanged`, and for a `duplicate` of a command with one of these statuses. It is false
    for `deferred`: the final outcome follows with the same `command_id`. `target` is the deferred command that a
    `cqrs.Cancel` or `cqrs.Release` command found.
    """

    ok: bool
    status: str
    command_id: str
    aggregate: str
    aggregate_id: str
    version: int
    events: int
    partition: int
    offset: int
    reason: str | None = None
    code: str | None = None
    message: str | None = None
    retryable: bool | None = None
    original: Original | None = None
    due: str | None = None
    target: DeferredTarget | None = None

    @classmethod
    def from_record(cls, outcome: OutcomeEnvelope, command: ReadyCommand) -> "CommandOutcome":
        """Convert an outcome, read from the outcomes topic, of the command `command`."""
        verdict = outcome.data
        return cls(
            not is_failure(outcome)
            and "deferred" not in (verdict.status, _original_status(verdict.original)),
            verdict.status,
            command.id,
            command.aggregate,
            command.subject,
            verdict.version,
            verdict.events,
            verdict.partition,
            verdict.offset,
            _none_if_unset(verdict.reason),
            _none_if_unset(verdict.code),
            _none_if_unset(verdict.message),
            _none_if_unset(verdict.retryable),
            _none_if_unset(verdict.original),
            _none_if_unset(verdict.due),
            _none_if_unset(verdict.target),
        )


def _original_status(original: Original | UnsetType) -> str:
    return "" if isinstance(original, UnsetType) else original.status


def _none_if_unset(value: Any) -> Any:
    return None if value is UNSET else value
