"""Streams of events, and their continuation after a disconnect."""

import json
import re
import uuid
from contextlib import closing
from http.client import HTTPResponse
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.following.gateway.event_buffer import EventBuffer, StreamEvent
from cqrs_cli.following.gateway.gateway import GatewayLimits
from cqrs_cli.following.gateway.streams import format_event
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.following.gateway.conftest import GatewayClient, open_stream, running_gateway
from tests.support.waiting import eventually


class ReceivedEvent(NamedTuple):
    name: str
    id: str
    version: int
    subject: str


def read_events(response: HTTPResponse, count: int) -> list[ReceivedEvent]:
    """Return the next events of a stream."""
    events: list[ReceivedEvent] = []
    members: dict[str, str] = {}
    while len(events) < count:
        line = response.readline().decode().rstrip("\n")
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            members[name] = value
        elif not line and members:
            event = json.loads(members["data"])
            events.append(
                ReceivedEvent(members["event"], members["id"], event["aggregateversion"], event["subject"])
            )
            members = {}
    return events


@pytest.mark.kafka
def test_stream_sends_new_events(gateway: GatewayClient) -> None:
    name = gateway.open_account()
    with (
        open_stream(gateway, f"/bank_account/{name}") as events_of_account,
        open_stream(gateway, "/bank_account?type=Deposited") as all_deposits,
    ):
        other = gateway.open_account()
        gateway.post(name, "Deposit", {"amount": 1})
        gateway.post(name, "Withdraw", {"amount": 1})
        assert [(event.name, event.version) for event in read_events(events_of_account, 2)] == [
            ("Deposited", 3),
            ("Withdrawn", 4),
        ]
        assert {(event.name, event.subject) for event in read_events(all_deposits, 2)} == {
            ("Deposited", name),
            ("Deposited", other),
        }


@pytest.mark.kafka
@pytest.mark.parametrize("from_topic", [False, True], ids=["from memory", "from the topic"])
def test_no_event_is_missed_after_disconnects(
    connection: Connection, accounts: Topics, tmp_path: Path, from_topic: bool
) -> None:
    """A client that reconnects with its last id gets the remaining events, each once."""
    with running_gateway(connection, accounts, tmp_path) as first:
        names = [f"acc-{uuid.uuid4().hex[:8]}" for _ in range(6)]
        for name in names:
            first.post(name, "Open", {"owner": "ann"})
        received: list[ReceivedEvent] = []
        last_id = "beginning"
        if not from_topic:
            received, last_id = _read_one_by_one(first, names, received, last_id)
    if from_topic:
        with running_gateway(connection, accounts, tmp_path) as second:
            received, last_id = _read_one_by_one(second, names, received, last_id)
    assert sorted(event.subject for event in received) == sorted(names)


def _read_one_by_one(
    gateway: GatewayClient, names: list[str], received: list[ReceivedEvent], last_id: str
) -> tuple[list[ReceivedEvent], str]:
    while {event.subject for event in received} < set(names):
        header = {"Last_Event_ID": last_id} if last_id != "beginning" else {}
        with open_stream(gateway, "/bank_account?type=Opened&from=beginning", **header) as response:
            (event,) = read_events(response, 1)
        last_id = event.id
        if event.subject in names:
            received.append(event)
    return received, last_id


@pytest.mark.kafka
@pytest.mark.parametrize("last_id", ["x", "1:", "9:0", "0:-1"])
def test_invalid_positions_are_refused(gateway: GatewayClient, last_id: str) -> None:
    response = gateway.get("/bank_account", Accept="text/event-stream", Last_Event_ID=last_id)
    assert (response.status, response.body["title"]) == (400, "invalid from")
    assert gateway.get("/bank_account?type=Flown", Accept="text/event-stream").status == 400


@pytest.mark.kafka
@pytest.mark.parametrize("name", ["Last_Event_ID", "from"])
def test_position_beyond_the_log_is_gone(
    connection: Connection, accounts: Topics, tmp_path: Path, name: str
) -> None:
    """The client has events of a log that no longer exists, and would wait forever."""
    with running_gateway(connection, accounts, tmp_path, GatewayLimits(short_log_timeout=0.0)) as gateway:
        path = "/bank_account?from=1:99999" if name == "from" else "/bank_account"
        header = {} if name == "from" else {name: "0:0,1:99999"}
        response = gateway.get(path, Accept="text/event-stream", **header)
    assert (response.status, response.body["title"]) == (410, "the log ends before this position")
    assert response.body["detail"].startswith("partition 1 ends at ")


@pytest.mark.kafka
def test_streams_are_counted(connection: Connection, accounts: Topics, tmp_path: Path) -> None:
    with running_gateway(connection, accounts, tmp_path, GatewayLimits(max_streams=1)) as gateway:
        with open_stream(gateway, "/bank_account"):
            assert gateway.get("/bank_account", Accept="text/event-stream").status == 503
        eventually(lambda: gateway.gateway.streams == 0)


@pytest.mark.kafka
def test_streams_count_before_they_begin(connection: Connection, accounts: Topics, tmp_path: Path) -> None:
    """The first stream waits for a read slot, which never becomes free."""
    limits = GatewayLimits(max_streams=1, max_reads=0)
    with (
        running_gateway(connection, accounts, tmp_path, limits) as gateway,
        closing(gateway.connect()) as first,
    ):
        first.request("GET", "/bank_account?from=beginning", headers={"Accept": "text/event-stream"})
        eventually(lambda: gateway.gateway.streams == 1)
        assert gateway.get("/bank_account", Accept="text/event-stream").status == 503


@given(st.lists(st.integers(1, 400), max_size=40), st.integers(0, 60), st.integers(1, 20))
def test_buffer_is_a_range_of_the_log(gaps: list[int], position: int, limit: int) -> None:
    """The buffer returns exactly the events after an offset, or reports that its first event is later."""
    buffer, log, offset = EventBuffer({0: 5}, buffer_bytes=600), list[StreamEvent](), 5
    for gap in gaps:
        log.append(StreamEvent(0, offset, "x", "t", "e" * gap))
        buffer.append(log[-1])
        offset += 1 + gap % 3
    page = buffer.events_from(0, position, limit)
    if page is None:
        assert position < 5 or sum(len(event.text) for event in log if event.offset >= position) > 0
    else:
        assert page == [event for event in log if event.offset >= position][:limit]


@given(st.text(alphabet="ab\n\r\x85\u2028", min_size=1))
def test_lines_of_data_are_one_event(text: str) -> None:
    message = format_event(StreamEvent(0, 1, "x", "a.B", text), {1: 3, 0: 2})
    lines = message.split("\n")
    assert lines[:2] == ["event: B", "id: 0:2,1:3"] and message.endswith("\n\n")
    assert "\n".join(line.removeprefix("data: ") for line in lines[2:-2]) == re.sub("\r\n?", "\n", text)
