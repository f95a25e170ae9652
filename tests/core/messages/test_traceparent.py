"""A trace is propagated from a command to its events and outcome, and affects no decision."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.attributes import MAX_TRACESTATE
from cqrs_cli.core.messages.record import Headers, Record
from cqrs_cli.core.recorded import read_recorded_event
from tests.core.tally import AGGREGATE, Partition, command, record

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

#: Texts of any kind, most of which are not traces.
_texts = st.just(TRACE) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
_numbers = st.integers(-1, 4)


def events_and_outcomes(*records: Record) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Decide these records, and return their events and outcomes."""
    partition = Partition()
    partition.decide(*records)
    events, outcomes = (
        [json.loads(value) for value, _, _ in output] for output in (partition.events, partition.outcomes)
    )
    return events, outcomes


def binary_record(trace: dict[str, str], number: int) -> Record:
    attributes = {"specversion": "1.0", "id": "1", "source": "/t", "type": "tally.Add", "subject": "a"}
    headers: Headers = [(f"ce_{name}", text.encode()) for name, text in {**attributes, **trace}.items()]
    return Record(0, 5000, b"a", b'{"n":%d}' % number, headers)


@given(_texts, _numbers, st.booleans())
def test_any_trace_is_propagated_unchanged(trace: str, number: int, in_headers: bool) -> None:
    """The commands are accepted, unchanged or rejected, and are CloudEvents in binary or structured mode."""
    structured = record(0, command(data={"n": number}, traceparent=trace))
    events, outcomes = events_and_outcomes(
        binary_record({"traceparent": trace}, number) if in_headers else structured
    )
    assert [message["traceparent"] for message in (*events, *outcomes)] == [trace] * (1 + max(0, number))


@given(_texts, _numbers)
def test_trace_changes_nothing_else(trace: str, number: int) -> None:
    data = {"n": number}
    with_trace = events_and_outcomes(record(0, command(data=data, traceparent=trace)))
    without_trace = events_and_outcomes(record(0, command(data=data)))
    for messages_with_trace, messages in zip(with_trace, without_trace, strict=True):
        assert [{**message, "traceparent": trace} for message in messages] == messages_with_trace
        assert not any("traceparent" in message for message in messages)


@given(
    st.none() | _texts | st.just(""), st.none() | _texts | st.text("x", max_size=900), _numbers, st.booleans()
)
def test_tracestate_goes_with_traceparent(
    trace: str | None, tracestate: str | None, number: int, in_headers: bool
) -> None:
    """A tracestate without a trace is omitted, and so is a tracestate that is empty or too long."""
    attributes = {"traceparent": trace, "tracestate": tracestate}
    if in_headers:
        command_record = binary_record(
            {name: text for name, text in attributes.items() if text is not None}, number
        )
    else:
        command_record = record(0, command(data={"n": number}, traceparent=trace, tracestate=tracestate))
    expected = {}
    if trace:
        expected = {"traceparent": trace}
        if tracestate and len(tracestate) <= 512:
            expected["tracestate"] = tracestate
    events, outcomes = events_and_outcomes(command_record)
    for message in (*events, *outcomes):
        assert {name: text for name, text in message.items() if name.startswith("trace")} == expected


def test_duplicate_has_its_own_trace() -> None:
    """A repeated command with another trace has the same fingerprint."""
    second_trace = TRACE.replace("4bf9", "5bf9")
    events, outcomes = events_and_outcomes(
        record(0, command(traceparent=TRACE)), record(1, command(traceparent=second_trace))
    )
    assert [outcome["data"]["status"] for outcome in outcomes] == ["accepted", "duplicate"]
    assert [outcome["traceparent"] for outcome in outcomes] == [TRACE, second_trace]
    assert [event["traceparent"] for event in events] == [TRACE]


@pytest.mark.parametrize("empty", [None, ""])
def test_empty_trace_is_none(empty: str | None) -> None:
    events, outcomes = events_and_outcomes(record(0, command(traceparent=empty)))
    assert not any("traceparent" in message for message in (*events, *outcomes))


def test_outcome_without_subject_has_no_trace() -> None:
    _, (outcome,) = events_and_outcomes(record(0, command(traceparent=TRACE), key=b"\xff"))
    assert outcome["data"]["reason"] == "KEY_MISMATCH"
    assert not {"subject", "traceparent"} & outcome.keys()


@pytest.mark.parametrize(
    ("attributes", "trace"),
    [
        ({"traceparent": TRACE, "tracestate": "a=1"}, (TRACE, "a=1")),
        ({"traceparent": TRACE}, (TRACE, None)),
        ({}, (None, None)),
    ],
)
def test_readers_of_events_get_the_trace(
    attributes: dict[str, str], trace: tuple[str | None, str | None]
) -> None:
    partition = Partition()
    partition.decide(record(0, command(**attributes)))
    (value, _, _) = partition.events[0]
    recorded_event = read_recorded_event(AGGREGATE, value, "tally.events", 3, 0)
    assert (recorded_event.traceparent, recorded_event.tracestate) == trace


def test_longest_tracestate_is_propagated() -> None:
    for length, is_propagated in ((MAX_TRACESTATE, True), (MAX_TRACESTATE + 1, False)):
        partition = Partition()
        partition.decide(record(0, command(traceparent=TRACE, tracestate="a=" + "b" * (length - 2))))
        assert ("tracestate" in partition.last_outcome()) == is_propagated
