"""Applies the size limits to the events that `decide` returned, and turns its exceptions into results of commands."""

from collections.abc import Callable, Iterable

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command, Context, Event, Rejected, State
from cqrs_cli.core.aggregate.errors import PROCESS_ERRORS, class_name, is_interrupt
from cqrs_cli.core.context import MAX_EVENTS, BatchContext, OutputRecord
from cqrs_cli.core.deferral.later import Later
from cqrs_cli.core.messages.command import MAX_ATTRIBUTE, CommandEnvelope
from cqrs_cli.core.messages.outcome import truncate
from cqrs_cli.core.messages.payload_reference import (
    PayloadReference,
    payload_folder,
    reference_to,
    with_reference,
)
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import utc

#: Bytes to reserve within the broker's limit for the headers and other fields of a record and its batch (Kafka's record
#: format v2).
RECORD_OVERHEAD = 512


def result_of_error(
    aggregate: Aggregate, command: Command, state: State, error: BaseException
) -> CheckFailed | Later:
    """Return the result of a `decide` that raised `error`. `CheckFailed` results from `Rejected` (BUSINESS_RULE) and
    from any other exception (HANDLER_ERROR). Process errors (`PROCESS_ERRORS`) are raised.
    """
    if isinstance(error, PROCESS_ERRORS):
        raise error
    if isinstance(error, Later):
        return _redact_later(error, aggregate, command, state) if aggregate.has_personal_fields else error
    if isinstance(error, Rejected):
        return _business_rule(error, aggregate, command, state)
    if is_interrupt(error):
        raise error
    return _handler_error(error, aggregate)


def too_many_events() -> CheckFailed:
    """Return the failure of a command with more than `MAX_EVENTS` events."""
    return CheckFailed(Reason.TOO_LARGE, f"more than {MAX_EVENTS} events")


def unchecked_size(context: BatchContext) -> float:
    """Return the size in bytes up to which the events of a command, added together, cannot exceed any limit.

    A key has at most `MAX_ATTRIBUTE` bytes.
    """
    max_value_bytes = context.max_event_bytes - RECORD_OVERHEAD - MAX_ATTRIBUTE
    return min(context.max_bytes, max_value_bytes, context.payload_threshold)


def apply_size_limits(
    context: BatchContext, data_of: Callable[[int], bytes], events: list[OutputRecord]
) -> tuple[list[OutputRecord], dict[PayloadReference, bytes], int]:
    """Return the event records to write, the payloads to upload, and the bytes of both.

    Data above the payload threshold become payloads, and their records contain references. `data_of` returns the data
    of an event by its index. Raises `CheckFailed` (TOO_LARGE).
    """
    folder, total, payload_bytes = payload_folder(context.topic), 0, 0
    records: list[OutputRecord] = []
    payloads: dict[PayloadReference, bytes] = {}
    for index, (value, key, timestamp) in enumerate(events):
        data = data_of(index)
        if len(data) > context.payload_threshold:
            payload_bytes += len(data)
            if payload_bytes > (limit := context.max_payload):
                raise CheckFailed(
                    Reason.TOO_LARGE, f"its payloads have {payload_bytes} bytes: the limit is {limit}"
                )
            reference = reference_to(data)
            payloads[reference] = data
            value = with_reference(value, folder, reference)
        total += len(value)
        limit = min(context.max_event_bytes - len(key or b"") - RECORD_OVERHEAD, context.max_bytes)
        if len(value) > limit or total > context.max_bytes:
            raise CheckFailed(
                Reason.TOO_LARGE, f"with event {index} its events have {total} bytes: the limit is {limit}"
            )
        records.append((value, key, timestamp))
    return records, payloads, total + sum(map(len, payloads.values()))


def invalid_result(aggregate: Aggregate, events: tuple[Event, ...], error: BaseException) -> CheckFailed:
    """Return the failure of a command whose events cannot be written: `error` itself if it is TOO_LARGE, HANDLER_ERROR
    for a non-event or an event that cannot be encoded or folded. Process errors (`PROCESS_ERRORS`) are raised.
    """
    if isinstance(error, CheckFailed):
        return error
    if isinstance(error, PROCESS_ERRORS) or is_interrupt(error):
        raise error
    event_types: Iterable[type] = map(type, events)
    for event_type in event_types:
        if event_type not in aggregate.event_types and error.args == (event_type,):
            return CheckFailed(Reason.HANDLER_ERROR, f"decide yielded {class_name(event_type)}, not an event")
    return _handler_error(error, aggregate)


def _handler_error(error: BaseException, aggregate: Aggregate) -> CheckFailed:
    """Return the HANDLER_ERROR for an exception of the aggregate's code, with the exception as its cause."""
    failure = CheckFailed(Reason.HANDLER_ERROR, aggregate.describe_error(error))
    failure.__cause__ = aggregate.redact_error(error)
    return failure


def context_of(record: Record, envelope: CommandEnvelope, version: int) -> Context:
    """Return the context for `decide`. It depends only on record and log, so all owners create equal contexts."""
    correlation = envelope.correlationid or envelope.id
    return Context(envelope.subject, version, utc(record.timestamp), envelope.id, correlation)


def _business_rule(rejected: Rejected, aggregate: Aggregate, command: Command, state: State) -> CheckFailed:
    """Return the rejection with message and code as text, redacted if they contain a personal value."""
    try:
        message, code = str(rejected.message), str(rejected.code)
    except PROCESS_ERRORS:
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        return CheckFailed(Reason.HANDLER_ERROR, aggregate.describe_error(error))
    if aggregate.has_personal_fields:
        redact = aggregate.personal.text_redactor(command, state)
        message, code = redact(message), redact(code, Rejected("").code)
    return CheckFailed(Reason.BUSINESS_RULE, message, code=truncate(code))


def _redact_later(later: Later, aggregate: Aggregate, command: Command, state: State) -> Later:
    """Return `Later` with its reason redacted if the reason contains a personal value."""
    redact = aggregate.personal.text_redactor(command, state)
    return Later(later.after, redact(str(later.reason)))
