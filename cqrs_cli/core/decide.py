"""Deciding one command: the only place that calls an aggregate's `decide`."""

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Raw

from cqrs_cli.core.aggregate import Aggregate, encode
from cqrs_cli.core.decider import Command, Rejected
from cqrs_cli.core.envelope import CommandEnvelope, UndecidableError
from cqrs_cli.core.event import WrittenEvent
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.record import Record

if TYPE_CHECKING:
    from cqrs_cli.core.batch import Context, Output

MAX_EVENTS = 10_000
MAX_BYTES = 8 * 1024 * 1024

#: What a record's headers, batch and field overhead take of the broker's limit, in bytes (Kafka's record format v2).
RECORD_OVERHEAD = 512


class Accepted(NamedTuple):
    """The events of one command, written out, and the aggregate after them."""

    events: "list[Output]"
    after: Folded


def decide_one(
    aggregate: Aggregate,
    context: "Context",
    record: Record,
    key: bytes,
    envelope: CommandEnvelope,
    command: Command,
    before: Folded | None,
    time: str,
) -> Accepted | None:
    """The events of one command and the state they lead to, None if there are none.

    Each event is folded as a reader of the log will see it: encoded, then decoded. Raises `Rejected` as `decide` does,
    and `UndecidableError` for HANDLER_ERROR and TOO_LARGE, in which case none of the events counts.
    """
    decider = aggregate.decider
    state = before.state if before else decider.initial
    version = before.version if before else 0
    try:
        # a generator decides late and may never end: all of it is needed before anything is folded
        decided = tuple(islice(decider.decide(command, state), MAX_EVENTS + 1))
        if not decided:
            return None
        if len(decided) > MAX_EVENTS:
            raise UndecidableError("TOO_LARGE", f"more than {MAX_EVENTS} events")
        datas = []
        for event in decided:
            kind = aggregate.event_types.get(type(event))
            if kind is None:
                raise UndecidableError(
                    "HANDLER_ERROR", f"decide yielded {type(event).__name__}, which is no event"
                )
            aggregate.check_finite(event)
            data = encode(event)
            state = decider.evolve(state, aggregate.decode_event[kind](data))
            datas.append((kind, data))
        if type(state) is not aggregate.state:
            raise UndecidableError(
                "HANDLER_ERROR", f"evolve returned {type(state).__name__}, not {aggregate.state.__name__}"
            )
        aggregate.check_finite(state)
        encode(state)
    except (Rejected, UndecidableError):
        raise
    except Exception as error:  # the aggregate's own code: anything may come
        raise UndecidableError("HANDLER_ERROR", f"{type(error).__name__}: {error}") from error
    events = _write(context, record, key, envelope, datas, version, time)
    return Accepted(events, Folded(version + len(datas), state, record.offset, len(datas) - 1, time))


def _write(
    context: "Context",
    record: Record,
    key: bytes,
    envelope: CommandEnvelope,
    datas: list[tuple[str, bytes]],
    version: int,
    time: str,
) -> "list[Output]":
    """The event records; raises `UndecidableError` (TOO_LARGE) if the broker would refuse one."""
    count = len(datas)
    correlation = envelope.correlationid or envelope.id
    source = "/cqrs/" + datas[0][0].partition(".")[0]
    limit = context.max_event_bytes - len(key) - RECORD_OVERHEAD
    total = 0
    events: list[Output] = []
    for index, (kind, data) in enumerate(datas):
        value = encode(
            WrittenEvent(
                "1.0",
                f"{context.partition}/{record.offset}/{index}",
                source,
                kind,
                envelope.subject,
                time,
                envelope.id,
                correlation,
                version + index + 1,
                index,
                count,
                Raw(data),
            )
        )
        total += len(value)
        if len(value) > limit or total > MAX_BYTES:
            raise UndecidableError(
                "TOO_LARGE", f"event {index} makes it {total} bytes: the limit is {min(limit, MAX_BYTES)}"
            )
        events.append((value, key, record.timestamp))
    return events
