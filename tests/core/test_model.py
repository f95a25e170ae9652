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
    """The reference, which decides valid commands one by one according to the contract."""

    def __init__(self) -> None:
        self.version: dict[str, int] = {}
        self.decided: dict[tuple[str, str], tuple[int, str]] = {}
        self.clock = 0

    def decide(self, timestamp: int, command: dict[str, Any]) -> tuple[str, str | None, int]:
        self.clock = max(self.clock, timestamp)
        version, key = self.version.get(command["subject"], 0), (command["subject"], command["id"])
        content = json.dumps([command["type"], command["data"], command.get("expectedversion")])
        first = self.decided.get(key)
        if first and self.clock - first[0] <= WINDOW:
            return ("duplicate", None, version) if first[1] == content else ("rejected", "ID_REUSED", version)
        if command["type"] not in ("tally.Add", "tally.Crash"):
            return "failed", "UNKNOWN_TYPE", version
        expected = command.get("expectedversion", "any")
        matches = {"any": True, "none": version == 0, "exists": version > 0}.get(
            expected, expected == str(version)
        )
        status, reason, n = "accepted", None, command["data"]["n"]
        if not matches:
            reason = {"none": "ALREADY_EXISTS", "exists": "NOT_FOUND"}.get(expected, "VERSION_CONFLICT")
        elif n < 0:
            reason = "BUSINESS_RULE"
        if reason or n == 0:
            status, n = ("rejected" if reason else "unchanged"), 0
        self.decided[key] = timestamp, content
        self.version[command["subject"]] = version + n
        return status, reason, version + n


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
            offset,
            json.dumps({"specversion": "1.0", "source": "/t", **command}).encode(),
            command["subject"].encode(),
            timestamp,
        )
        for offset, (timestamp, command) in enumerate(stream)
    ]


@pytest.mark.covers("no-lost-update", "decided-once")
@given(streams)
def test_outcomes_equal_the_reference_model(
    stream: list[tuple[int, dict[str, Any]]],
) -> None:
    model, partition = Model(), Partition()
    partition.decide(*records_of(stream))
    verdicts = [json.loads(value)["data"] for value, _, _ in partition.outcomes]
    assert [(verdict["status"], verdict.get("reason"), verdict["version"]) for verdict in verdicts] == [
        model.decide(timestamp, command) for timestamp, command in stream
    ]


@pytest.mark.covers("no-lost-update")
@given(streams, st.sets(st.integers(1, 39)))
def test_batch_boundaries_make_no_difference(stream: list[Any], cuts: set[int]) -> None:
    whole_batch, cut_batches = Partition(), Partition()
    records = records_of(stream)
    whole_batch.decide(*records)
    for start, end in pairwise([0, *sorted(cuts), 40]):
        cut_batches.decide(*records[start:end])
    assert (whole_batch.events, whole_batch.outcomes, whole_batch.dead_letters) == (
        cut_batches.events,
        cut_batches.outcomes,
        cut_batches.dead_letters,
    )
    assert (whole_batch.states, whole_batch.dedup_entries) == (cut_batches.states, cut_batches.dedup_entries)


@given(streams)
def test_events_are_numbered_without_gap(stream: list[Any]) -> None:
    partition = Partition()
    partition.decide(*records_of(stream))
    for subject in "ab":
        events = [e for e in map(json.loads, (v for v, _, _ in partition.events)) if e["subject"] == subject]
        assert [e["aggregateversion"] for e in events] == list(range(1, len(events) + 1))


@pytest.mark.covers("no-lost-update")
@given(streams, st.integers(1, 5), st.none() | st.integers(0, 2000))
def test_pieces_make_no_difference(stream: list[Any], size: int, max_bytes: int | None) -> None:
    """A batch decided in pieces gives the same records as the whole batch, also if it ends early."""
    whole_batch, batch = Partition(), Partition().batch()
    records = records_of(stream)
    whole_batch.decide(*records)
    events, outcomes = [], []
    for start in range(0, len(records), size):
        decisions = batch.decide_piece(records[start : start + size], inf if max_bytes is None else max_bytes)
        events += decisions.events
        outcomes += decisions.outcomes
        if max_bytes is not None and batch.event_bytes > max_bytes:
            break
    assert (events, outcomes) == (whole_batch.events[: len(events)], whole_batch.outcomes[: len(outcomes)])
    assert sum(batch.decisions.counts[status] for status in STATUSES) == len(outcomes)
    if max_bytes is None:
        assert (events, outcomes, batch.decisions.states) == (
            whole_batch.events,
            whole_batch.outcomes,
            whole_batch.states,
        )
