"""Deciding is compared with a model that decides one command after the other, for all cuts into batches."""

import json
from itertools import pairwise
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.core.messages.record import Record
from tests.core.tally import WINDOW, Partition, record


class Model:
    """The reference: decides one command at a time by the contract. Its input are valid envelopes."""

    def __init__(self) -> None:
        self.version: dict[str, int] = {}
        self.seen: dict[tuple[str, str], tuple[int, str]] = {}
        self.clock = 0

    def decide(self, timestamp: int, c: dict[str, Any]) -> tuple[str, str | None, int]:
        self.clock = max(self.clock, timestamp)
        version, key = self.version.get(c["subject"], 0), (c["subject"], c["id"])
        content = json.dumps([c["type"], c["data"], c.get("expectedversion")])
        first = self.seen.get(key)
        if first and self.clock - first[0] <= WINDOW:
            return ("duplicate", None, version) if first[1] == content else ("rejected", "ID_REUSED", version)
        if c["type"] not in ("tally.Add", "tally.Crash"):
            return "failed", "UNKNOWN_TYPE", version
        expected = c.get("expectedversion", "any")
        holds = {"any": True, "none": version == 0, "exists": version > 0}.get(
            expected, expected == str(version)
        )
        status, why, n = "accepted", None, c["data"]["n"]
        if not holds:
            why = {"none": "ALREADY_EXISTS", "exists": "NOT_FOUND"}.get(expected, "VERSION_CONFLICT")
        elif n < 0:
            why = "BUSINESS_RULE"
        if why or n == 0:
            status, n = ("rejected" if why else "unchanged"), 0
        self.seen[key] = timestamp, content
        self.version[c["subject"]] = version + n
        return status, why, version + n


commands = st.fixed_dictionaries(
    {
        "id": st.sampled_from("123456"),
        "subject": st.sampled_from("ab"),
        "type": st.sampled_from(["tally.Add", "tally.Add", "tally.Add", "tally.Nope"]),
        "data": st.fixed_dictionaries({"n": st.integers(-1, 3)}),
    },
    optional={"expectedversion": st.sampled_from(["any", "none", "exists", "0", "1", "2", "3"])},
)
streams = st.lists(st.tuples(st.integers(0, 3000), commands), max_size=40)


def records_of(stream: list[tuple[int, dict[str, Any]]]) -> list[Record]:
    return [
        record(
            offset, json.dumps({"specversion": "1.0", "source": "/t", **c}).encode(), c["subject"].encode(), t
        )
        for offset, (t, c) in enumerate(stream)
    ]


@pytest.mark.covers("no-lost-update", "decided-once")
@given(streams)
def test_outcomes_equal_the_reference_model(
    stream: list[tuple[int, dict[str, Any]]],
) -> None:
    model, partition = Model(), Partition()
    partition.feed(*records_of(stream))
    got = [json.loads(value)["data"] for value, _, _ in partition.outcomes]
    assert [(d["status"], d.get("reason"), d["version"]) for d in got] == [
        model.decide(t, c) for t, c in stream
    ]


@pytest.mark.covers("no-lost-update")
@given(streams, st.sets(st.integers(1, 39)))
def test_batch_cuts_make_no_difference(stream: list[Any], cuts: set[int]) -> None:
    whole, parts = Partition(), Partition()
    records = records_of(stream)
    whole.feed(*records)
    for start, end in pairwise([0, *sorted(cuts), 40]):
        parts.feed(*records[start:end])
    assert (whole.events, whole.outcomes, whole.dead_letters) == (
        parts.events,
        parts.outcomes,
        parts.dead_letters,
    )
    assert (whole.states, whole.remembered) == (parts.states, parts.remembered)


@given(streams)
def test_events_are_numbered_without_gap(stream: list[Any]) -> None:
    partition = Partition()
    partition.feed(*records_of(stream))
    for subject in "ab":
        events = [e for e in map(json.loads, (v for v, _, _ in partition.events)) if e["subject"] == subject]
        assert [e["aggregateversion"] for e in events] == list(range(1, len(events) + 1))


@pytest.mark.covers("no-lost-update")
@given(streams, st.integers(1, 5), st.none() | st.integers(0, 2000))
def test_pieces_make_no_difference(stream: list[Any], size: int, most_bytes: int | None) -> None:
    """A batch decided in pieces gives the same records as the whole batch, also if it ends early."""
    whole, batch = Partition(), Partition().batch()
    records = records_of(stream)
    whole.feed(*records)
    events, outcomes = [], []
    for start in range(0, len(records), size):
        done = batch.decide_piece(records[start : start + size], inf if most_bytes is None else most_bytes)
        events += done.events
        outcomes += done.outcomes
        if most_bytes is not None and batch.event_bytes > most_bytes:
            break
    assert (events, outcomes) == (whole.events[: len(events)], whole.outcomes[: len(outcomes)])
    assert sum(batch.decisions.counts[status] for status in STATUSES) == len(outcomes)
    if most_bytes is None:
        assert (events, outcomes, batch.decisions.states) == (whole.events, whole.outcomes, whole.states)
