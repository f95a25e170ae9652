"""The writers of events and outcomes give the same bytes as the encoder does for structs with the same members."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, UnsetType

from cqrs_cli.core.messages.attributes import PROPAGATED, PropagatedAttributes
from cqrs_cli.core.messages.command import CommandEnvelope, shared_members_of_unreadable
from cqrs_cli.core.messages.event import event_writer
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.outcome import Original, VerdictWithoutDeferral, outcome_writer


class WrittenEnvelope(PropagatedAttributes, frozen=True, omit_defaults=True):
    specversion: str
    id: str
    source: str
    type: str
    subject: str | UnsetType
    time: str
    causationid: str | UnsetType
    correlationid: str | UnsetType


class WrittenEvent(WrittenEnvelope, frozen=True, kw_only=True, omit_defaults=True):
    """An event: the members of `WrittenEnvelope`, the propagated attributes, then the members of this class."""

    aggregateversion: int
    eventindex: int
    eventcount: int
    data: Any


class WrittenOutcome(WrittenEnvelope, frozen=True, kw_only=True, omit_defaults=True):
    """An outcome: the members of `WrittenEnvelope`, the propagated attributes, then the data."""

    data: VerdictWithoutDeferral


TIME = "2026-11-21T01:02:03.456Z"
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
sources = st.sampled_from(["/cqrs/note", "/cqrs/100%d", "/cqrs/ö"])
numbers = st.integers(0, 2**53)
envelopes = st.builds(
    CommandEnvelope,
    specversion=st.just("1.0"),
    id=texts,
    source=texts,
    type=texts,
    subject=texts,
    correlationid=st.none() | st.just("") | texts,
    **{name: st.none() | st.just("") | texts for name in PROPAGATED},
)


def shared_values_of(envelope: CommandEnvelope) -> tuple[str, str, str, str]:
    return envelope.subject, TIME, envelope.id, envelope.correlationid or envelope.id


@given(sources, numbers, envelopes, numbers, numbers, numbers, numbers)
def test_events_equal_encoded_structs(
    source: str, partition: int, envelope: CommandEnvelope, offset: int, index: int, version: int, count: int
) -> None:
    id, shared_values, data = f"{partition}/{offset}/{index}", shared_values_of(envelope), b'{"a":"%d"}'
    numbers_of_event: dict[str, Any] = {"aggregateversion": version, "eventindex": index, "eventcount": count}
    members_of_event = {**numbers_of_event, "data": Raw(data), **envelope.propagated()}
    expected = WrittenEvent("1.0", id, source, "note.Nöted", *shared_values, **members_of_event)
    arguments = (offset, index, envelope.shared_members(TIME), version, index, count, data)
    assert event_writer(source, partition, "note.Nöted")(arguments) == encode_json(expected)


verdicts = st.builds(
    VerdictWithoutDeferral,
    status=st.sampled_from(["accepted", "rejected"]),
    message=st.just(UNSET) | texts,
    expected=st.just(UNSET) | texts,
    version=numbers,
    fingerprint=st.just(UNSET) | st.integers(0, 2**32 - 1),
    original=st.just(UNSET) | st.just(Original(1, "accepted", 2, 3)),
)


@given(sources, numbers, st.none() | envelopes, numbers, texts, verdicts)
def test_outcomes_equal_encoded_structs(
    source: str,
    partition: int,
    envelope: CommandEnvelope | None,
    offset: int,
    type: str,
    verdict: VerdictWithoutDeferral,
) -> None:
    shared_values = (UNSET, TIME, UNSET, UNSET) if envelope is None else shared_values_of(envelope)
    propagated = {} if envelope is None else envelope.propagated()
    expected = WrittenOutcome(
        "1.0", f"{partition}/{offset}", source, type, *shared_values, data=verdict, **propagated
    )
    shared = shared_members_of_unreadable(TIME) if envelope is None else envelope.shared_members(TIME)
    arguments = (offset, encode_json(type), shared, encode_json(verdict))
    assert outcome_writer(source, partition)(arguments) == encode_json(expected)
