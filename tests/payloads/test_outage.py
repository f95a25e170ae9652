"""An object store dies, hangs or refuses its users: no decision is wrong, and a one-line error names the remedy."""

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.payloads.bank import LARGE_NAME, Bank, running_supervisor
from tests.support.objects.running import ObjectServer
from tests.support.owners import running_owners
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.objects]


@pytest.fixture
def kind() -> str:
    """The kind of payload store that the fixture `bank` uses."""
    return "objects"


@pytest.fixture
def server(object_store: ObjectServer) -> Iterator[ObjectServer]:
    """A server that the test may kill or pause. It works again after the test."""
    yield object_store
    object_store.resume()
    if object_store.process.poll() is not None:
        object_store.start()


@pytest.mark.covers("payloads")
def test_owner_waits_for_the_server(bank: Bank, server: ObjectServer) -> None:
    """An owner waits for an object store that is killed and restarted within the retry time."""
    long_retry_address = bank.store.address._replace(retry_for=30.0)
    bank.harness.connection = replace(bank.harness.connection, payloads=long_retry_address)
    for subject in ("ada", "bob"):
        bank.send(subject, "Open", f"owner={subject}{LARGE_NAME}")
    server.kill()
    with running_owners(replace(bank.harness.plan(), end_offsets=None)):
        with socket.create_server(("127.0.0.1", server.port)) as refusing_server:
            refusing_server.settimeout(30)
            refusing_server.accept()[0].close()
        assert bank.harness.outcomes() == []
        server.start()
        eventually(lambda: len(bank.harness.outcomes()) == 2)
    assert [outcome.data.status for outcome in bank.harness.outcomes()] == ["accepted"] * 2
    assert bank.harness.violations("state") == []


@pytest.mark.covers("payloads")
@pytest.mark.parametrize(
    ("fault", "reason"), [("kill", "it cannot be reached"), ("pause", "the store does not answer")]
)
def test_outage_fails_commands_one_by_one(bank: Bank, server: ObjectServer, fault: str, reason: str) -> None:
    """Without the store only commands with payloads fail. They may be sent again, and are decided once it is back."""
    bank.send("ada", "Open", f"owner={LARGE_NAME}")
    bank.send("bob", "Open", "owner=bob")
    getattr(server, fault)()
    assert bank.decide() == ["PAYLOAD_UNAVAILABLE", "accepted"]
    assert reason in str(bank.harness.outcomes()[0].data.message)
    if fault == "kill":
        server.start()
    server.resume()
    bank.send("ada", "Open", f"owner={LARGE_NAME}")
    assert bank.decide() == ["PAYLOAD_UNAVAILABLE", "accepted", "accepted"]
    assert bank.harness.violations("state") == []


@pytest.mark.covers("payloads")
@pytest.mark.parametrize("fault", ["kill", pytest.param("pause", marks=pytest.mark.slow)])
def test_event_waits_for_the_server(bank: Bank, server: ObjectServer, fault: str) -> None:
    """Nothing of the batch is committed before the event's payload is stored."""
    bank.send_inline("ada", "Open", f"owner=ada{LARGE_NAME}")
    getattr(server, fault)()
    with running_supervisor(bank, "state") as supervisor:
        eventually(lambda: any("could not be stored" in note for note in supervisor.notes))
        assert bank.events() == [] and bank.harness.outcomes() == []
        if fault == "kill":
            server.start()
        server.resume()
        eventually(lambda: bank.harness.outcomes())
    assert bank.decide() == ["accepted"]
    assert bank.harness.violations("state") == []
