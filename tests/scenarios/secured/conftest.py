"""`cqrs` in the test's process, on a broker that requires TLS, logins and ACLs; the topics of customers, and users."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.keyspace.added_partitions import create_lineage_topic
from tests.cli.conftest import cqrs
from tests.deciding.customers import customer_topics, register_command
from tests.scenarios.secured.acls import User
from tests.scenarios.secured.broker import SecuredBroker
from tests.support.harness import TopicHarness

__all__ = ["cqrs"]


@pytest.fixture
def shop(secured: SecuredBroker, prefix: str, tmp_path: Path) -> TopicHarness:
    """Topics with undecided commands: Ann and Bob have registered."""
    customer_shop = customer_topics(secured.administrator, prefix, tmp_path)
    with Admin(secured.administrator) as admin:
        create_lineage_topic(admin, customer_shop.topics)  # the ACLs of a missing topic show only Describe
    customer_shop.send(register_command("ann"), register_command("bob"))
    return customer_shop


@pytest.fixture
def created_users(secured: SecuredBroker) -> Iterator[list[User]]:
    """The users that a test creates. Their clients are closed after the test."""
    users: list[User] = []
    yield users
    for user in users:
        user.admin.close()
