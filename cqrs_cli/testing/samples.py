"""Samples of events as older code wrote them, which the current code must still read."""

from collections.abc import Iterable, Mapping

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.testing.round_trip import BrokenLaw

#: Event name → samples of its data, or sample → expected event: `{"Opened": {b'{"owner":"ann"}': Opened("ann")}}`.
Samples = Mapping[str, Iterable[bytes] | Mapping[bytes, Event]]


def check_samples(aggregate: Aggregate, samples: Samples) -> None:
    """Raise `BrokenLaw` for an unreadable sample, an unexpected event, or an upcaster without a sample."""
    __tracebackhide__ = True
    prefix = f"{aggregate.name}."
    for wire_type in aggregate.upcasters:
        name = wire_type.removeprefix(prefix)
        if not list(samples.get(name, ())):
            raise BrokenLaw(
                f"the upcaster of {name} has no sample: pass the data of such an event, as it was written: "
                f"check_laws(…, samples={{{name!r}: [b'…']}})"
            )
    for name, event_samples in samples.items():
        for data in event_samples:
            event = _decode_sample(aggregate, name, data)
            if isinstance(event_samples, Mapping) and event != event_samples[data]:
                raise BrokenLaw(
                    f"{name} {data.decode()} is read as {event!r}, not as {event_samples[data]!r}"
                )


def _decode_sample(aggregate: Aggregate, name: str, data: bytes) -> Event:
    """Decode a sample to a current event; raises `BrokenLaw` if a second decoding returns another event."""
    __tracebackhide__ = True
    decode = aggregate.decode_event.get(f"{aggregate.name}.{name}")
    if decode is None:
        raise BrokenLaw(f"{name} is sampled, but is neither a current event nor has an upcaster")
    try:
        event, second = decode(data), decode(data)
    except ValueError as error:
        raise BrokenLaw(f"{name} {data.decode(errors='replace')} cannot be read: {error}") from error
    if event != second:
        raise BrokenLaw(
            f"the upcaster of {name} depends on chance or time: it gives {event!r}, then {second!r}"
        )
    return event
