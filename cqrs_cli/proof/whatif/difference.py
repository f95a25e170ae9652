"""Compares the logged result of a command with the result of the changed code (`cqrs whatif --with`). Pure."""

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED
from cqrs_cli.core.fold import FoldError, decode_event
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.outcome import Original, OutcomeEnvelope, Verdict
from cqrs_cli.core.messages.timestamps import parse_timestamp
from cqrs_cli.core.stored import StoredState

DifferenceKind = Literal["outcome", "events", "version", "state"]

#: (kind, logged result, simulated result) of a difference, such as `("outcome", "accepted", "rejected EXPIRED")`.
Label = tuple[DifferenceKind, str, str]

#: The messages of outcomes `failed` of commands that killed workers, or at which `decide` hung.
_POISON_MESSAGE = re.compile(
    r"it did not end within \d+ s|the worker died on it (once|\d+ times)|.* \(tried alone \d+ times\)",
    re.DOTALL,
)


class HistoryDifference(NamedTuple):
    """One difference between the log and the simulation. A difference of states has no command.

    `was`: the logged decision or state in JSON. `would`: the simulated decision or state in JSON. `was_result` and
    `would_result` are short texts, such as `rejected BUSINESS_RULE OVERDRAWN` or `absent`.
    """

    kind: DifferenceKind
    was_result: str
    would_result: str
    partition: int
    offset: int | None  # offset of the command
    subject: str | None
    id: str | None
    type: str | None
    was: bytes
    would: bytes

    @property
    def label(self) -> Label:
        """The group in which differences are counted."""
        return self.kind, self.was_result, self.would_result

    def document(self) -> dict[str, Any]:
        """Return the difference as a JSON document."""
        document = {**self._asdict(), "was": Raw(self.was), "would": Raw(self.would)}
        return {name: value for name, value in document.items() if value is not None}


def poison_reason_of(outcome: OutcomeEnvelope) -> str | None:
    """Return the message of the outcome if the command killed workers, or if `decide` hung at it; else None.

    Such a command would kill a worker again, so a simulation repeats the logged outcome.
    """
    verdict = outcome.data
    message = verdict.message or ""
    return message if verdict.reason == "HANDLER_ERROR" and _POISON_MESSAGE.fullmatch(message) else None


def was_given_up(outcome: OutcomeEnvelope) -> bool:
    """True if the command failed without being read (`run --fail`)."""
    return outcome.data.reason == "TOO_LARGE" and outcome.data.fingerprint is UNSET


def owner_clock(outcome: OutcomeEnvelope) -> int:
    """Return the time (ms) by the owner's clock at which it decided an expired command; 0 for any other outcome.

    Other outcomes do not contain this time.
    """
    decided_at = outcome.data.decidedat
    if not decided_at:
        return 0
    try:
        return parse_timestamp(decided_at)
    except ValueError:
        return 0


def compare_decisions(
    aggregate: Aggregate,
    logged: OutcomeEnvelope,
    logged_events: Sequence[EventEnvelope],
    simulated: OutcomeEnvelope,
    simulated_events: Sequence[EventEnvelope],
) -> HistoryDifference | None:
    """Return the difference of one command, or None. `aggregate`: the changed code.

    Messages are compared only for BUSINESS_RULE, because only these texts come from the aggregate. Two events are equal
    if the changed code decodes both to equal values, even if their JSON differs.
    """
    kind: DifferenceKind
    if _result(logged.data) != _result(simulated.data):
        kind = "outcome"
    elif not _same_events(aggregate, logged_events, simulated_events):
        kind = "events"
    elif _versions(logged.data) != _versions(simulated.data):
        kind = "version"
    else:
        return None
    return HistoryDifference(
        kind,
        result_text(logged.data),
        result_text(simulated.data),
        logged.data.partition,
        logged.data.offset,
        logged.subject or simulated.subject,
        logged.causationid or simulated.causationid,
        _command_type(simulated),
        _decision_json(aggregate, logged.data, logged_events),
        _decision_json(aggregate, simulated.data, simulated_events),
    )


def _command_type(outcome: OutcomeEnvelope) -> str | None:
    """Return the command type, derived from the outcome type; None if the outcome does not contain it."""
    command_type = outcome.type.rpartition(".")[0]
    return None if command_type == "cqrs" else command_type


def compare_states(
    partition: int, aggregate_id: str, logged: StoredState | None, simulated: StoredState | None
) -> HistoryDifference | None:
    """Return the difference between the final states of an aggregate, or None."""
    logged_json, simulated_json = _state_json(logged), _state_json(simulated)
    if logged_json == simulated_json:
        return None
    logged_status, simulated_status = (
        "absent" if state is None else "exists" for state in (logged, simulated)
    )
    return HistoryDifference(
        "state",
        logged_status,
        simulated_status,
        partition,
        None,
        aggregate_id,
        None,
        None,
        logged_json,
        simulated_json,
    )


def result_text(verdict: Verdict) -> str:
    """Return `accepted`, or `rejected BUSINESS_RULE OVERDRAWN`."""
    parts = [verdict.status, verdict.reason or "", verdict.code or ""]
    return " ".join(part for part in parts if part)


def _result(verdict: Verdict) -> tuple[Any, ...]:
    message = verdict.message if verdict.reason == "BUSINESS_RULE" else None
    original = (verdict.original.offset, verdict.original.status) if verdict.original else None
    return verdict.status, verdict.reason, verdict.code, message, original


def _versions(verdict: Verdict) -> tuple[Any, ...]:
    return verdict.version, verdict.events, verdict.original


def _same_events(
    aggregate: Aggregate, logged: Sequence[EventEnvelope], simulated: Sequence[EventEnvelope]
) -> bool:
    return len(logged) == len(simulated) and all(
        _same_event(aggregate, old, new) for old, new in zip(logged, simulated, strict=True)
    )


def _same_event(aggregate: Aggregate, logged: EventEnvelope, simulated: EventEnvelope) -> bool:
    if (logged.type, bytes(logged.data)) == (
        simulated.type,
        bytes(simulated.data),
    ) or logged.type == simulated.type == ERASED:
        return True  # an erasure contains the id of the erased key, which may differ in a simulation
    try:
        return decode_event(aggregate, logged) == decode_event(aggregate, simulated)
    except FoldError:
        return False


class _Event(Struct):
    type: str
    version: int
    data: Raw


class _Decision(Struct):
    status: str
    reason: str | UnsetType
    code: str | UnsetType
    message: str | UnsetType
    version: int
    original: Original | UnsetType
    events: list[_Event]


class _State(Struct):
    version: int
    state: Raw


def redacted_state(aggregate: Aggregate, stored_state: StoredState | None) -> StoredState | None:
    """Return a state with its personal values redacted."""
    if stored_state is None or not aggregate.has_personal_fields:
        return stored_state
    return replace(stored_state, state=aggregate.personal.redact_data(aggregate.state, stored_state.state))


def _redacted_data(aggregate: Aggregate, event: EventEnvelope) -> Raw:
    """Return the data of an event with its personal values redacted."""
    cls = aggregate.events.get(event.type) if aggregate.has_personal_fields else None
    return event.data if cls is None else Raw(aggregate.personal.redact_data(cls, bytes(event.data)))


def _decision_json(aggregate: Aggregate, verdict: Verdict, events: Sequence[EventEnvelope]) -> bytes:
    json_events = [
        _Event(event.type, event.aggregateversion, _redacted_data(aggregate, event)) for event in events
    ]
    fields = verdict.status, verdict.reason, verdict.code, verdict.message
    return encode_json(_Decision(*fields, verdict.version, verdict.original, json_events))


def _state_json(stored_state: StoredState | None) -> bytes:
    return encode_json(
        None if stored_state is None else _State(stored_state.version, Raw(stored_state.state))
    )
