"""`cqrs` in process, on the broker that wants TLS, logins and ACLs; customers on it, and users of theirs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.kafka.admin.growing import make_lineage
from cqrs_cli.kafka.admin.topics import Admin
from tests.cli.conftest import cqrs
from tests.deciding.personal import customers, register
from tests.scenarios.secured.acls import User
from tests.scenarios.secured.broker import Secured
from tests.support.harness import TopicHarness

__all__ = ["cqrs"]


@pytest.fixture
def shop(secured: Secured, prefix: str, tmp_path: Path) -> TopicHarness:
    """Ann and Bob have sent who they are; nobody has decided it."""
    made = customers(secured.administrator, prefix, tmp_path)
    with Admin(secured.administrator) as admin:
        make_lineage(admin, made.topics)  # of a topic that is not there only Describe can be asked for
    made.send(register("ann"), register("bob"))
    return made


@pytest.fixture
def made(secured: Secured) -> Iterator[list[User]]:
    """The users of a test."""
    users: list[User] = []
    yield users
    for user in users:
        user.admin.close()
