"""Deciding one command: the only place that calls an aggregate's `decide`, and what is made of its answer."""

from collections.abc import Callable, Iterable
from itertools import islice

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command, Context, Event, Rejected, State
from cqrs_cli.core.aggregate.invalid import PROCESS_ERRORS
from cqrs_cli.core.context import MAX_EVENTS, BatchContext, OutputRecord
from cqrs_cli.core.deferral.later import Later
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.messages.command import MAX_ATTRIBUTE, CommandEnvelope
from cqrs_cli.core.messages.outcome import cut
from cqrs_cli.core.messages.payload_reference import (
    PayloadReference,
    payload_folder,
    refer,
    with_reference,
)
from cqrs_cli.core.messages.reasons import Reason, Refused
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import utc
from cqrs_cli.core.personal.words import texts_of, withhold

#: Bytes of the broker's limit that a record's headers, batch and field overhead take (Kafka's record format v2).
RECORD_OVERHEAD = 512

#: The answer of `decide`: its events, or that there are none. A value: an exception that is kept keeps its frames.
Answer = tuple[Event, ...] | Refused | Later


def call_decide(
    aggregate: Aggregate, record: Record, envelope: CommandEnvelope, command: Command, before: Folded | None
) -> Answer:
    """Check 11, first half: the answer of the aggregate's `decide`, which is asked once.

    `Refused` is for `Rejected` (BUSINESS_RULE), any other exception (HANDLER_ERROR), and too many events (TOO_LARGE).
    Errors of the process come out as they are.
    """
    decide: Callable[..., Iterable[Event]] = aggregate.decider.decide
    state = before.state if before else aggregate.decider.initial
    try:
        # a generator decides late and may never end: all of it is needed before anything is folded
        if aggregate.decide_with_context:
            version = before.version if before else 0
            deciding = decide(command, state, _circumstances(record, envelope, version))
        else:
            deciding = decide(command, state)
        decided = tuple(islice(deciding, MAX_EVENTS + 1))
    except (KeyboardInterrupt, *PROCESS_ERRORS):
        raise
    except Later as later:
        return _put_off(later, command, state) if aggregate.has_personal_fields else later
    except Rejected as rejected:
        return _business_rule(rejected, aggregate, command, state)
    except BaseException as error:  # the aggregate's own code: anything may come
        return _handler_error(error, aggregate)
    if len(decided) > MAX_EVENTS:
        return Refused(Reason.TOO_LARGE, f"more than {MAX_EVENTS} events")
    return decided


def plain_size(context: BatchContext) -> float:
    """The bytes of a command's events up to which none is too large, nor its data. No key is above MAX_ATTRIBUTE."""
    in_record = context.max_event_bytes - RECORD_OVERHEAD - MAX_ATTRIBUTE
    return min(context.max_bytes, in_record, context.payload_threshold)


def within_limits(
    context: BatchContext, data_of: Callable[[int], bytes], events: list[OutputRecord]
) -> tuple[list[OutputRecord], dict[PayloadReference, bytes], int]:
    """The records of events as they may be written, the data that are payloads, and the bytes of both.

    `data_of` gives the data of an event by its number. Raises `Refused` (TOO_LARGE).
    """
    folder, total, apart = payload_folder(context.topic), 0, 0
    written: list[OutputRecord] = []
    payloads: dict[PayloadReference, bytes] = {}
    for index, (value, key, timestamp) in enumerate(events):
        data = data_of(index)
        if len(data) > context.payload_threshold:
            apart += len(data)
            if apart > (limit := context.max_payload):
                raise Refused(Reason.TOO_LARGE, f"its payloads have {apart} bytes: the limit is {limit}")
            reference = refer(data)
            payloads[reference] = data
            value = with_reference(value, folder, reference)
        total += len(value)
        limit = min(context.max_event_bytes - len(key or b"") - RECORD_OVERHEAD, context.max_bytes)
        if len(value) > limit or total > context.max_bytes:
            raise Refused(Reason.TOO_LARGE, f"event {index} makes it {total} bytes: the limit is {limit}")
        written.append((value, key, timestamp))
    return written, payloads, total + sum(map(len, payloads.values()))


def unfolded(aggregate: Aggregate, decided: tuple[Event, ...], error: BaseException) -> Refused:
    """The refusal for events of which one is none, or could not be encoded or folded."""
    kinds: Iterable[type] = map(type, decided)
    for kind in kinds:
        if kind not in aggregate.event_types and error.args == (kind,):
            return Refused(Reason.HANDLER_ERROR, f"decide yielded {kind.__name__}, not an event")
    return _handler_error(error, aggregate)


def _handler_error(error: BaseException, aggregate: Aggregate) -> Refused:
    """The refusal for an exception of the aggregate's code, which is its cause."""
    refused = Refused(Reason.HANDLER_ERROR, aggregate.raised(error))
    refused.__cause__ = aggregate.shown(error)
    return refused


def _circumstances(record: Record, envelope: CommandEnvelope, version: int) -> Context:
    """The context that `decide` may ask for: nothing that another owner, deciding the same record, would not know."""
    correlation = envelope.correlationid or envelope.id
    return Context(envelope.subject, version, utc(record.timestamp), envelope.id, correlation)


def _business_rule(rejected: Rejected, aggregate: Aggregate, command: Command, state: State) -> Refused:
    """The rejection in words that can be written, whatever it was raised with: none with a personal value."""
    try:
        message, code = str(rejected.message), str(rejected.code)
    except PROCESS_ERRORS:
        raise
    except Exception as error:
        return Refused(Reason.HANDLER_ERROR, aggregate.raised(error))
    if aggregate.has_personal_fields:
        values = texts_of(command, state)
        message, code = withhold(message, values), withhold(code, values, Rejected("").code)
    return Refused(Reason.BUSINESS_RULE, message, code=cut(code))


def _put_off(later: Later, command: Command, state: State) -> Later:
    """The same for the reason of a command that waits."""
    return Later(later.after, withhold(str(later.reason), texts_of(command, state)))
