"""A process manager with exactly the ACLs of docs/processes.md, and without each of them."""

import re

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.process_topics import process_acls
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.added_partitions import create_lineage_topic
from cqrs_cli.settings.settings import load_settings
from tests.following.processes.process_harness import (
    ProcessHarness,
    error_texts,
    expected_payments,
    run_in_this_process,
)
from tests.scenarios.secured.acls import grant, revoke
from tests.scenarios.secured.broker import SecuredBroker
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_documented_acls_are_enough(secured: SecuredBroker, prefix: str) -> None:
    harness, user = ProcessHarness(secured.administrator, prefix), f"{prefix}reactor"
    harness.place_orders(0, 5)
    with Admin(secured.administrator) as admin:
        for name in ("order", "payment"):
            create_lineage_topic(
                admin, Topics(name, prefix)
            )  # the ACLs of a missing topic show only Describe
    secured.add_users(user)
    events, commands = (
        [harness.topic(kind, name) for name in ("order", "payment")] for kind in ("events", "commands")
    )
    acls = process_acls(harness.topics, events, commands)
    grant(secured, user, acls)
    settings = load_settings({"command_config": secured.login(user)}, secured.folder)
    harness.connection = Connection(secured.address("SASL"), settings.client_properties())
    with Admin(harness.connection) as admin:
        eventually(lambda: admin.missing_acls(acls) == [])
        assert error_texts(run_in_this_process(harness.plan(from_beginning=True))) == []
        for acl in acls:
            revoke(secured, user, acl)
            eventually(lambda: admin.missing_acls(acls))
            with pytest.raises(ConfigurationError, match=re.escape(str(acl))):
                harness.plan()
            grant(secured, user, [acl])
            eventually(lambda: admin.missing_acls(acls) == [])
    harness.connection = secured.administrator
    assert harness.payment_requests() == expected_payments(0, 5)
