"""Topics of `bank_account` that an owner has decided."""

import pytest

from cqrs_cli import registry
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.cli.conftest import Cqrs
from tests.support import AGGREGATES
from tests.support.simple_owner import SimpleOwner

BANK_ACCOUNT = registry.load("bank_account", "aggregates", AGGREGATES.parent)


@pytest.fixture
def cqrs_on_decisions(cqrs_on_broker: Cqrs, connection: Connection, prefix: str) -> Cqrs:
    """`cqrs` on the topics of the accounts a and b: five events, a rejection and a record that is not a command."""
    owner = SimpleOwner(connection, Topics("bank_account", prefix), BANK_ACCOUNT)
    for subject, command, *fields in (
        ("a", "Open", "owner=Ada"),
        ("b", "Open", "owner=Bob"),
        ("a", "Deposit", "amount=100"),
        ("a", "Withdraw", "amount=30"),
        ("b", "Withdraw", "amount=1"),
        ("b", "Deposit", "amount=5"),
    ):
        assert cqrs_on_broker("send", "bank_account", subject, command, *fields).status == 0
    producer = clients.producer(connection)
    producer.produce(f"{prefix}bank_account.commands", b"\xff", b"x", 0, headers=HEADERS)  # type: ignore[arg-type]
    producer.flush()
    owner.decide()
    return cqrs_on_broker
