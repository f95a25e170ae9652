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

from cqrs_cli.following.gateway.feed import EventBuffer, FeedEvent
from cqrs_cli.following.gateway.gateway import GatewayLimits
from cqrs_cli.following.gateway.streams import server_sent
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.following.gateway.conftest import Reached, reached, stream
from tests.support.waiting import eventually


class Sent(NamedTuple):
    name: str
    at: str
    version: int
    subject: str


def take(found: HTTPResponse, count: int) -> list[Sent]:
    """Return the next events of a stream."""
    taken: list[Sent] = []
    members: dict[str, str] = {}
    while len(taken) < count:
        line = found.readline().decode().rstrip("\n")
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            members[name] = value
        elif not line and members:
            event = json.loads(members["data"])
            taken.append(Sent(members["event"], members["id"], event["aggregateversion"], event["subject"]))
            members = {}
    return taken


@pytest.mark.kafka
def test_stream_gives_what_comes(gateway: Reached) -> None:
    name = gateway.opened()
    with (
        stream(gateway, f"/bank_account/{name}") as one,
        stream(gateway, "/bank_account?type=Deposited") as some,
    ):
        other = gateway.opened()
        gateway.post(name, "Deposit", {"amount": 1})
        gateway.post(name, "Withdraw", {"amount": 1})
        assert [(sent.name, sent.version) for sent in take(one, 2)] == [("Deposited", 3), ("Withdrawn", 4)]
        assert {(sent.name, sent.subject) for sent in take(some, 2)} == {
            ("Deposited", name),
            ("Deposited", other),
        }


@pytest.mark.kafka
@pytest.mark.parametrize("again", [False, True], ids=["from memory", "from the topic"])
def test_nothing_is_missed_after_breaks(
    connection: Connection, accounts: Topics, tmp_path: Path, again: bool
) -> None:
    """A client that reconnects with its last id gets the remaining events, each once."""
    with reached(connection, accounts, tmp_path) as first:
        names = [f"acc-{uuid.uuid4().hex[:8]}" for _ in range(6)]
        for name in names:
            first.post(name, "Open", {"owner": "ann"})
        taken: list[Sent] = []
        last = "beginning"
        if not again:
            taken, last = _in_steps(first, names, taken, last)
    if again:
        with reached(connection, accounts, tmp_path) as second:
            taken, last = _in_steps(second, names, taken, last)
    assert sorted(sent.subject for sent in taken) == sorted(names)


def _in_steps(gateway: Reached, names: list[str], taken: list[Sent], last: str) -> tuple[list[Sent], str]:
    while {sent.subject for sent in taken} < set(names):
        header = {"Last_Event_ID": last} if last != "beginning" else {}
        with stream(gateway, "/bank_account?type=Opened&from=beginning", **header) as found:
            (sent,) = take(found, 1)
        last = sent.at
        if sent.subject in names:
            taken.append(sent)
    return taken, last


@pytest.mark.kafka
@pytest.mark.parametrize("last", ["x", "1:", "9:0", "0:-1"])
def test_foreign_places_are_refused(gateway: Reached, last: str) -> None:
    found = gateway.get("/bank_account", Accept="text/event-stream", Last_Event_ID=last)
    assert (found.status, found.body["title"]) == (400, "from")
    assert gateway.get("/bank_account?type=Flown", Accept="text/event-stream").status == 400


@pytest.mark.kafka
@pytest.mark.parametrize("name", ["Last_Event_ID", "from"])
def test_place_beyond_the_log_is_gone(
    connection: Connection, accounts: Topics, tmp_path: Path, name: str
) -> None:
    """The client has events of a log that no longer exists, and would wait forever."""
    with reached(connection, accounts, tmp_path, GatewayLimits(believed=0.0)) as found:
        path = "/bank_account?from=1:99999" if name == "from" else "/bank_account"
        header = {} if name == "from" else {name: "0:0,1:99999"}
        answer = found.get(path, Accept="text/event-stream", **header)
    assert (answer.status, answer.body["title"]) == (410, "no such place any more")
    assert answer.body["detail"].startswith("partition 1 ends at ")


@pytest.mark.kafka
def test_streams_are_counted(connection: Connection, accounts: Topics, tmp_path: Path) -> None:
    with reached(connection, accounts, tmp_path, GatewayLimits(streams=1)) as found:
        with stream(found, "/bank_account"):
            assert found.get("/bank_account", Accept="text/event-stream").status == 503
        eventually(lambda: found.gateway.streams == 0)


@pytest.mark.kafka
def test_streams_count_before_they_begin(connection: Connection, accounts: Topics, tmp_path: Path) -> None:
    """The first stream waits for a read slot, which never becomes free."""
    limits = GatewayLimits(streams=1, readings=0)
    with reached(connection, accounts, tmp_path, limits) as found, closing(found.connect()) as first:
        first.request("GET", "/bank_account?from=beginning", headers={"Accept": "text/event-stream"})
        eventually(lambda: found.gateway.streams == 1)
        assert found.get("/bank_account", Accept="text/event-stream").status == 503


@given(st.lists(st.integers(1, 400), max_size=40), st.integers(0, 60), st.integers(1, 20))
def test_feed_is_a_stretch_of_the_log(gaps: list[int], position: int, most: int) -> None:
    """The buffer returns exactly the events after an offset, or reports that its first event is later."""
    feed, log, offset = EventBuffer({0: 5}, kept_bytes=600), list[FeedEvent](), 5
    for gap in gaps:
        log.append(FeedEvent(0, offset, "x", "t", "e" * gap))
        feed.add(log[-1])
        offset += 1 + gap % 3
    found = feed.after(0, position, most)
    if found is None:
        assert position < 5 or sum(len(event.text) for event in log if event.offset >= position) > 0
    else:
        assert found == [event for event in log if event.offset >= position][:most]


@given(st.text(alphabet="ab\n\r\x85\u2028", min_size=1))
def test_lines_of_data_are_one_event(text: str) -> None:
    said = server_sent(FeedEvent(0, 1, "x", "a.B", text), {1: 3, 0: 2})
    lines = said.split("\n")
    assert lines[:2] == ["event: B", "id: 0:2,1:3"] and said.endswith("\n\n")
    assert "\n".join(line.removeprefix("data: ") for line in lines[2:-2]) == re.sub("\r\n?", "\n", text)
