"""The outcome of a command, as a value for programs."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from cqrs_cli.client.envelope import Composed
from cqrs_cli.client.outcomes import is_refused
from cqrs_cli.core.messages.outcome import DeferredTarget, Original, OutcomeEnvelope


class CommandOutcome(Struct, frozen=True):
    """The decision on a command: the members of its outcome, None where one does not apply.

    `ok` is true for `accepted`, `unchanged`, and a `duplicate` of one of those; not for `deferred`, whose final outcome
    is to come under the same `command_id`. `target` is the deferred command that a `cqrs.Cancel` or
    `cqrs.Release` found.
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
    def read(cls, outcome: OutcomeEnvelope, command: Composed) -> "CommandOutcome":
        """The value of an outcome on the wire."""
        said = outcome.data
        return cls(
            not is_refused(outcome) and "deferred" not in (said.status, _status(said.original)),
            said.status,
            command.id,
            command.aggregate,
            command.subject,
            said.version,
            said.events,
            said.partition,
            said.offset,
            _given(said.reason),
            _given(said.code),
            _given(said.message),
            _given(said.retryable),
            _given(said.original),
            _given(said.due),
            _given(said.target),
        )


def _status(original: Original | UnsetType) -> str:
    return "" if isinstance(original, UnsetType) else original.status


def _given(value: Any) -> Any:
    return None if value is UNSET else value
