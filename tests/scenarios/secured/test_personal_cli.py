"""`cqrs erase` and `cqrs keys` on a secured broker, each user with the ACLs of docs/security.md."""

import json
from pathlib import Path

import pytest

from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.keys.address import KeyRingAddress
from tests.cli.conftest import CommandResult, Cqrs
from tests.deciding.customers import PERSONAL_TEXT
from tests.scenarios.secured.acls import User, acls_for_topics, documented_acls, grant, revoke
from tests.scenarios.secured.broker import SecuredBroker
from tests.scenarios.secured.kafka_users import connection_with_keyring, create_user
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_owners
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def decided_shop(
    cqrs: Cqrs, secured: SecuredBroker, created_users: list[User], shop: TopicHarness
) -> TopicHarness:
    """The topics of `shop`, whose commands were decided by a user with the role `run`.

    The folder of `shop` becomes a project with the keyring `ring.json`.
    """
    code = (ROOT / "tests/core/personal/customer.py").read_text().partition("\nCUSTOMER = ")[0]
    (shop.folder / "people").mkdir()
    (shop.folder / "people/customer.py").write_text(code)
    settings = {"aggregates": "people", "topic_prefix": shop.topics.prefix, "keyring": "file:ring.json"}
    lines = (f'{name} = "{value}"\n' for name, value in settings.items())
    (shop.folder / "cqrs.toml").write_text("".join(lines))
    shop.connection = connection_with_keyring(shop, create_user(created_users, secured, shop, "run"))
    run_plan(shop.plan())
    return shop


def run_as(cqrs: Cqrs, user: User, *arguments: str) -> CommandResult:
    return cqrs(*arguments, "--command-config", str(user.broker.login(user.name)))


def allow_reading(user: User) -> None:
    """Grant the ACLs of the role `read` too."""
    read_acls = acls_for_topics(documented_acls("read", personal=True), user.topics)
    user.acls = [*user.acls, *(acl for acl in read_acls if acl not in user.acls)]
    grant(user.broker, user.name, read_acls)
    eventually(lambda: not user.lacking_acls())


def test_erasing_needs_the_role_send(
    secured: SecuredBroker, created_users: list[User], decided_shop: TopicHarness, cqrs: Cqrs
) -> None:
    """Sending an erasure, and waiting for its outcome, needs the role `send`. A dry run also needs the role `read`.

    Without the role `read`, the erasure is accepted, but `cqrs erase` warns that it did not read the events.
    """
    sender = create_user(created_users, secured, decided_shop, "send")
    assert run_as(cqrs, sender, "erase", "customer", "ann", "--dry-run").status == 3
    with running_owners(decided_shop.plan(once=False)):
        without_reading = run_as(cqrs, sender, "erase", "customer", "ann", "-o", "json")
        allow_reading(sender)
        with_reading = run_as(cqrs, sender, "erase", "customer", "bob", "-o", "json")
    for result in (without_reading, with_reading):
        assert (result.status, result.document["type"]) == (0, "cqrs.Erase.accepted"), result.err
    missing_acl = f"Read on topic {decided_shop.topics.events}"
    assert [f"{missing_acl} is not allowed" in result.err for result in (without_reading, with_reading)] == [
        True,
        False,
    ]
    lines = [json.loads(line) for line in Path("erasures.ndjson").read_text().splitlines()]
    assert [(line["id"], "key" in line) for line in lines] == [("ann", False), ("bob", True)]
    result = run_as(cqrs, sender, "erase", "customer", "ann", "--dry-run", "-o", "json")
    assert (result.status, result.document["events"]) == (0, 2) and PERSONAL_TEXT not in result.out


def test_revoked_acl_to_send_is_named(
    secured: SecuredBroker, created_users: list[User], decided_shop: TopicHarness, cqrs: Cqrs
) -> None:
    sender = create_user(created_users, secured, decided_shop, "send")
    allow_reading(sender)
    revoke(secured, sender.name, RequiredAcl("Write", "topic", decided_shop.topics.commands))
    eventually(sender.lacking_acls)
    result = run_as(cqrs, sender, "erase", "customer", "ann")
    assert result.status == 3, result.err
    assert decided_shop.topics.commands in result.err


def test_rotating_needs_no_acl(
    secured: SecuredBroker, created_users: list[User], decided_shop: TopicHarness, cqrs: Cqrs
) -> None:
    """Rotation changes the keyring, which is not in Kafka. Counting the keys under each KEK needs the role `read`."""
    reader = create_user(created_users, secured, decided_shop, "read")
    rotated = cqrs("keys", "rotate", "-o", "json")
    assert rotated.status == 0, rotated.err
    KeyRingAddress.load.cache_clear()  # as in a new process, which would read the keyring again

    def keys_by_kek() -> dict[str, int]:
        result = run_as(cqrs, reader, "keys", "status", "customer", "-o", "json")
        assert result.status == 0, result.err
        return {kek["master"]: kek["keys"] for kek in result.document["masters"]}

    new_kek = rotated.document["master"]
    assert keys_by_kek() == {new_kek: 0, "2026-11": 2}
    with running_owners(decided_shop.plan(once=False)):
        eventually(lambda: keys_by_kek() == {new_kek: 2, "2026-11": 0})
    reader.revoke(lost_acl := RequiredAcl("Read", "topic", decided_shop.topics.keys))
    result = run_as(cqrs, reader, "keys", "status", "customer")
    assert result.status == 3 and str(lost_acl) in result.err, result.err
