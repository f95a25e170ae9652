"""The gateway with large data."""

import json
from contextlib import ExitStack
from dataclasses import replace
from http.client import HTTPResponse
from pathlib import Path

import pytest

from cqrs_cli import registry
from cqrs_cli.core.messages.payload_reference import find_reference
from cqrs_cli.following.gateway.server import open_followers
from cqrs_cli.kafka.connection.connection import Connection
from tests.following.gateway.conftest import GatewayClient, open_stream, running_gateway
from tests.following.processes.process_harness import order_placed
from tests.following.projections.topics import create_order_topics, write_events
from tests.payloads.bank import LARGE_NAME, Bank
from tests.payloads.orders import large_order
from tests.payloads.stores import FolderStore
from tests.support import ROOT
from tests.support.owners import running_owners
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def first_event(gateway: GatewayClient) -> dict[str, object]:
    with open_stream(gateway, "/bank_account/ada?from=beginning") as stream:
        return dict(json.loads(line_of(stream, b"data: ")))


def line_of(stream: HTTPResponse, prefix: bytes) -> bytes:
    while not (line := stream.readline()).startswith(prefix):
        assert line, "the stream has ended"
    return line.removeprefix(prefix)


@pytest.mark.covers("payloads")
def test_gateway_receives_and_returns_large_data(bank: Bank, tmp_path: Path) -> None:
    harness, folder = bank.harness, tmp_path / "gateway"
    with (
        running_owners(harness.plan(once=False)),
        running_gateway(harness.connection, harness.topics, folder) as gateway,
    ):
        assert gateway.post("ada", "Open", {"owner": LARGE_NAME}).status == 200
        assert gateway.get("/bank_account/ada?at_least=1&wait=20s").body["state"]["owner"] == LARGE_NAME
        assert gateway.get("/bank_account/ada/history").body["history"][0]["data"] == {"owner": LARGE_NAME}
        assert first_event(gateway)["data"] == {"owner": LARGE_NAME}
    (command,), (event,) = harness.records("commands"), bank.events()
    reference = find_reference(event.value)
    assert reference is not None and find_reference(command.value) == reference
    payload = bank.store.file(reference, bank.folder).read_bytes()
    bank.store.delete(reference, bank.folder)
    message = f"{harness.topics.events}:0@{event.offset} refers to payload {reference.sha256}: it is missing"
    with running_gateway(harness.connection, harness.topics, folder) as gateway:  # it has folded the event
        assert gateway.get("/bank_account/ada").body["state"]["owner"] == LARGE_NAME
        history = gateway.get("/bank_account/ada/history")
        assert (history.status, history.body["detail"]) == (503, message)
        with open_stream(gateway, "/bank_account/ada?from=beginning") as stream:
            assert line_of(stream, f": {message}".encode()) == b"\n"
        bank.store.put(payload, bank.folder)
        assert first_event(gateway)["data"] == {"owner": LARGE_NAME}


@pytest.mark.covers("payloads")
def test_gateway_waits_for_a_lost_event(bank: Bank, tmp_path: Path) -> None:
    bank.send("ada", "Open", f"owner={LARGE_NAME}")
    assert bank.decide() == ["accepted"]
    reference = find_reference(bank.events()[0].value)
    assert reference is not None
    payload = bank.store.file(reference, bank.folder).read_bytes()
    bank.store.delete(reference, bank.folder)
    notes: list[str] = []
    with ExitStack() as stack:
        aggregates = {"bank_account": bank.harness.aggregate}
        connection, prefix = bank.harness.connection, bank.harness.topics.prefix
        followers = open_followers(connection, aggregates, prefix, "murmur2", tmp_path, notes.append, stack)
        follower = followers["bank_account"]
        follower.start()
        (note,) = eventually(lambda: notes)
        assert f"events:0@0 refers to payload {reference.sha256}: it is missing; still trying" in note
        assert not follower.is_caught_up
        bank.store.put(payload, bank.folder)
        eventually(lambda: follower.is_caught_up)
        stored_state = follower.state_of("ada")
    assert stored_state is not None and LARGE_NAME.encode() in stored_state.state and len(notes) == 1


def test_lost_event_blocks_only_its_partition(
    connection: Connection, prefix: str, store: FolderStore, tmp_path: Path
) -> None:
    """The gateway follows the other partitions."""
    events = create_order_topics(connection, prefix, 2).events
    event, reference = large_order(store, prefix, 1)
    store.delete(reference, f"{prefix}order")
    write_events(connection, events, 0, [event])
    write_events(connection, events, 1, [order_placed(0, 1)])
    aggregates = {"order": registry.load("order", "aggregates", ROOT)}
    with ExitStack() as stack:
        with_store = replace(connection, payloads=store.address)
        followers = open_followers(with_store, aggregates, prefix, "murmur2", tmp_path, print, stack)
        follower = followers["order"]
        follower.start()
        eventually(lambda: follower.replicas[1].state_of("o-1-0"))
        assert follower.replicas[0].aggregate_count() == 0 and not follower.is_caught_up
