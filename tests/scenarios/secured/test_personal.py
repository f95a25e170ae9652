"""Customers on a secured broker: the ACLs on the keys topic are sufficient, and each of them is necessary."""

import re
from contextlib import closing
from dataclasses import replace

import pytest

from cqrs_cli.client.codecs import decrypting_codec
from cqrs_cli.doctor.keys import count_kek_usage
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from cqrs_cli.scans.erased.verify import verify_erasure
from tests.deciding.customers import PERSONAL_TEXT, erase_command, key_records, register_command, use_keyring
from tests.scenarios.secured.acls import User
from tests.scenarios.secured.broker import SecuredBroker
from tests.scenarios.secured.kafka_users import connection_with_keyring, create_user
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_owners
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def key_topic_acls(user: User) -> list[RequiredAcl]:
    return [acl for acl in user.acls if acl.name == user.topics.keys]


def decoded_events(shop: TopicHarness, connection: Connection) -> str:
    """Return the events as a reader sees them, decrypted."""
    with closing(decrypting_codec(connection, shop.topics, shop.aggregate)) as codec:
        decoded, _ = codec.decode(shop.topics.events, 0, shop.records("events"))
        return str([event.value for event in decoded])


def test_owner_needs_its_rights_on_keys(
    secured: SecuredBroker, created_users: list[User], shop: TopicHarness
) -> None:
    runner = create_user(created_users, secured, shop, "run")
    shop.connection = connection_with_keyring(shop, runner)
    assert len(key_topic_acls(runner)) == 3
    for acl in key_topic_acls(runner):
        runner.revoke(acl)
        with pytest.raises(ConfigurationError, match=re.escape(str(acl))):
            shop.plan()
        runner.restore(acl)
    run_plan(shop.plan())
    shop.send(erase_command("ann"))
    run_plan(shop.plan())
    assert [(name, key is None) for name, key in key_records(as_administrator(shop, secured))] == [
        ("ann", False),
        ("bob", False),
        ("ann", True),
    ]


def as_administrator(shop: TopicHarness, secured: SecuredBroker) -> TopicHarness:
    """Let the administrator read the topics with the same keyring."""
    shop.connection = replace(secured.administrator, keys=shop.connection.keys)
    return shop


def test_owner_re_wraps_keys_after_rotation(
    secured: SecuredBroker, created_users: list[User], shop: TopicHarness
) -> None:
    """An owner re-wraps keys after `cqrs keys rotate` without further ACLs."""
    runner = create_user(created_users, secured, shop, "run")
    shop.connection = connection_with_keyring(shop, runner)
    use_keyring(shop, old=b"m" * 64)
    run_plan(shop.plan())
    use_keyring(shop, new=b"n" * 64, old=b"m" * 64)
    with running_owners(shop.plan(once=False)):
        eventually(lambda: count_kek_usage(secured.administrator, shop.topics)["old"].current == 0)


def test_losing_the_keys_ends_the_run(
    secured: SecuredBroker, created_users: list[User], shop: TopicHarness
) -> None:
    runner = create_user(created_users, secured, shop, "run")
    shop.connection = connection_with_keyring(shop, runner)
    with running_owners(shop.plan(once=False)) as owner:
        eventually(lambda: shop.stable_end("outcomes") > 0)
        runner.revoke(lost_acl := RequiredAcl("Write", "topic", shop.topics.keys))
        shop.send(register_command("cleo"))
        error = owner.error()
    assert isinstance(error, ConfigurationError) and str(lost_acl) in error.message
    runner.restore(lost_acl)
    run_plan(shop.plan())
    assert [outcome.data.status for outcome in shop.outcomes()] == ["accepted"] * 3


def test_reader_needs_its_rights_on_keys(
    secured: SecuredBroker, created_users: list[User], shop: TopicHarness
) -> None:
    run_plan(shop.plan())
    reader = create_user(created_users, secured, shop, "read")
    assert PERSONAL_TEXT in decoded_events(
        shop, connection_with_keyring(shop, reader)
    ) and PERSONAL_TEXT not in decoded_events(shop, reader.connection)
    reader.revoke(acl := RequiredAcl("Read", "topic", shop.topics.keys))
    assert PERSONAL_TEXT not in decoded_events(shop, reader.connection)
    with pytest.raises(ConfigurationError, match=f"{re.escape(str(acl))} is not allowed"):
        decoded_events(shop, connection_with_keyring(shop, reader))


def test_verify_erasure_names_missing_acls_first(
    secured: SecuredBroker, created_users: list[User], shop: TopicHarness
) -> None:
    shop.send(erase_command("ann"))
    run_plan(shop.plan())
    reader = create_user(created_users, secured, shop, "read")

    def count() -> int:
        return verify_erasure(reader.connection, shop.topics, shop.aggregate, shop.settings).violation_count

    assert count() == 0 and len(key_topic_acls(reader)) == 2
    for acl in reader.acls:
        reader.revoke(acl)
        with pytest.raises(ConfigurationError, match="not allowed, which read needs") as error_info:
            count()
        assert str(acl) in error_info.value.message
        reader.restore(acl)


def test_init_may_make_the_keys_topic(secured: SecuredBroker, created_users: list[User]) -> None:
    topics = Topics("customer", f"{secured.folder.name}.new.")
    created_users.append(User(secured, "keymaker", topics, "init", personal=True))
    with Admin(created_users[-1].connection) as admin:
        created = ensure_topics(admin, topics, TopicPlan(personal=True))
    assert created[-1] == (topics.keys, "created", created[0].partitions)
