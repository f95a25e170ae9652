"""Deciding one command: the only place that calls an aggregate's `decide`, and what is made of its answer."""

from collections.abc import Callable, Iterable
from itertools import islice

from msgspec import Raw

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command, Context, Event, Rejected
from cqrs_cli.core.aggregate.invalid import PROCESS_ERRORS, raised
from cqrs_cli.core.context import MAX_BYTES, MAX_EVENTS, BatchContext, OutputRecord
from cqrs_cli.core.deferral.later import Later
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.messages.command import CommandEnvelope
from cqrs_cli.core.messages.event import WrittenEvent
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.outcome import cut
from cqrs_cli.core.messages.payload_reference import (
    MAX_PAYLOAD,
    PayloadReference,
    payload_folder,
    refer,
    with_reference,
)
from cqrs_cli.core.messages.reasons import Reason, Refused
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import utc

#: Bytes of the broker's limit that a record's headers, batch and field overhead take (Kafka's record format v2).
RECORD_OVERHEAD = 512

#: The events of a command, the state that they lead to, None if there is no event, and their payloads.
Handled = tuple[list[OutputRecord], Folded | None, dict[PayloadReference, bytes]]

#: What `decide` said: its events, or that there are none. A value: an exception that is kept keeps its frames.
Answer = tuple[Event, ...] | Refused | Later


def call_decide(
    aggregate: Aggregate, record: Record, envelope: CommandEnvelope, command: Command, before: Folded | None
) -> Answer:
    """Check 11, first half: the answer of the aggregate's `decide`, which is asked once.

    `Refused` is for `Rejected` (BUSINESS_RULE), any other exception (HANDLER_ERROR), and too many events (TOO_LARGE).
    Errors of the process come out as they are.
    """
    decide: Callable[..., Iterable[Event]] = aggregate.decider.decide
    version, state = (before.version, before.state) if before else (0, aggregate.decider.initial)
    try:
        # a generator decides late and may never end: all of it is needed before anything is folded
        if aggregate.decide_with_context:
            deciding = decide(command, state, _circumstances(record, envelope, version))
        else:
            deciding = decide(command, state)
        decided = tuple(islice(deciding, MAX_EVENTS + 1))
    except (KeyboardInterrupt, *PROCESS_ERRORS):
        raise
    except Later as later:
        return later
    except Rejected as rejected:
        return _business_rule(rejected, aggregate.package)
    except BaseException as error:  # the aggregate's own code: anything may come
        return _handler_error(error, aggregate.package)
    if len(decided) > MAX_EVENTS:
        return Refused(Reason.TOO_LARGE, f"more than {MAX_EVENTS} events")
    return decided


def handle(
    aggregate: Aggregate,
    context: BatchContext,
    record: Record,
    envelope: CommandEnvelope,
    decided: tuple[Event, ...],
    before: Folded | None,
    time: str,
) -> Handled:
    """Check 11, second half: the events that were decided as records, the state they lead to, and their payloads.

    Each event is folded as a reader of the log will see it. Raises `Refused` for HANDLER_ERROR and TOO_LARGE: then all
    of the events are dropped. Errors of the process come out as they are.
    """
    if not decided:
        return [], None, {}
    version, state = (before.version, before.state) if before else (0, aggregate.decider.initial)
    datas: list[tuple[str, bytes]] = []
    try:
        for event in decided:
            kind = aggregate.event_types.get(type(event))
            if kind is None:
                raise Refused(Reason.HANDLER_ERROR, f"decide yielded {type(event).__name__}, not an event")
            data = aggregate.encode_checked(event)
            state = aggregate.step(state, kind, data)
            datas.append((kind, data))
    except (Refused, KeyboardInterrupt, *PROCESS_ERRORS):
        raise
    except BaseException as error:  # a `Rejected` too: `evolve` may not refuse
        raise _handler_error(error, aggregate.package) from error
    events, payloads = _write(aggregate.ce_source, context, record, envelope, datas, version, time)
    return events, Folded(version + len(datas), state, record.offset, len(datas) - 1, time), payloads


def _handler_error(error: BaseException, package: str) -> Refused:
    """The refusal for an exception of the aggregate's code, which is its cause."""
    refused = Refused(Reason.HANDLER_ERROR, raised(error, package))
    refused.__cause__ = error
    return refused


def _circumstances(record: Record, envelope: CommandEnvelope, version: int) -> Context:
    """The context that `decide` may ask for: nothing that another owner, deciding the same record, would not know."""
    correlation = envelope.correlationid or envelope.id
    return Context(envelope.subject, version, utc(record.timestamp), envelope.id, correlation)


def _business_rule(rejected: Rejected, package: str) -> Refused:
    """The rejection in words that can be written, whatever it was raised with."""
    try:
        return Refused(Reason.BUSINESS_RULE, str(rejected.message), code=cut(str(rejected.code)))
    except PROCESS_ERRORS:
        raise
    except Exception as error:
        return Refused(Reason.HANDLER_ERROR, raised(error, package))


def _write(
    source: str,
    context: BatchContext,
    record: Record,
    envelope: CommandEnvelope,
    datas: list[tuple[str, bytes]],
    version: int,
    time: str,
) -> tuple[list[OutputRecord], dict[PayloadReference, bytes]]:
    """The event records, and those of their data that are large; raises `Refused` (TOO_LARGE)."""
    key, timestamp, subject, cause = record.key, record.timestamp, envelope.subject, envelope.id
    assert key is not None
    count, total, apart = len(datas), 0, 0
    correlation, handed_on = envelope.correlationid or cause, envelope.handed_on()
    place = f"{context.partition}/{record.offset}/"
    limit = context.max_event_bytes - len(key) - RECORD_OVERHEAD
    events: list[OutputRecord] = []
    payloads: dict[PayloadReference, bytes] = {}
    for index, (kind, data) in enumerate(datas):
        version += 1
        large = len(data) > context.payload_threshold
        value = encode_json(
            WrittenEvent(
                "1.0",
                f"{place}{index}",
                source,
                kind,
                subject,
                time,
                cause,
                correlation,
                **handed_on,
                aggregateversion=version,
                eventindex=index,
                eventcount=count,
                data=None if large else Raw(data),
            )
        )
        if large:
            apart += len(data)
            value = _refer(value, data, context, payloads, apart)
        total += len(value)
        if len(value) > limit or total > MAX_BYTES:
            raise Refused(
                Reason.TOO_LARGE,
                f"event {index} makes it {total} bytes: the limit is {min(limit, MAX_BYTES)}",
            )
        events.append((value, key, timestamp))
    return events, payloads


def _refer(
    value: bytes, data: bytes, context: BatchContext, payloads: dict[PayloadReference, bytes], apart: int
) -> bytes:
    """The event with a reference to its data, which make the payloads `apart` bytes; raises `Refused` (TOO_LARGE)."""
    if apart > MAX_PAYLOAD:
        raise Refused(Reason.TOO_LARGE, f"its payloads have {apart} bytes: the limit is {MAX_PAYLOAD}")
    reference = refer(data)
    payloads[reference] = data
    return with_reference(value, payload_folder(context.topic), reference)
