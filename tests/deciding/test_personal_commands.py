"""Commands with personal values may be deleted up to an erasure, as docs/personal.md describes: all are decided."""

from pathlib import Path

import pytest
from msgspec.json import decode

from cqrs_cli.core.erasure import ERASE
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.scans.erased.verify import ErasureReport, verify_erasure
from tests.deciding.customers import (
    CUSTOMER_STATE,
    REDACTED_STATE,
    customer_topics,
    decrypted_states,
    erase_command,
    register_command,
)
from tests.support.commands import FAR_FUTURE, command
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.topic_loss import delete_records_before

pytestmark = pytest.mark.kafka


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Ann was erased, Bob was not, and Cleo's command is deferred. The commands before Ann's `Erase` are deleted."""
    customers = customer_topics(connection, prefix, tmp_path)
    deferred_command = command(
        "customer.Register", "cleo", "cleo.0", {"name": "Cleo", "mail": "c@home"}, notbefore=FAR_FUTURE
    )
    customers.send(
        register_command("ann"),
        register_command("bob"),
        deferred_command,
        erase_command("ann"),
        register_command("bob", 1),
    )
    run_plan(customers.plan())
    waiting_topics = [waiting.topic for waiting in erasure_report(customers).topic_search.remaining_records]
    assert waiting_topics == [customers.topics.commands]
    (erase_offset,) = [
        record.offset
        for record in customers.records("commands")
        if decode(record.value or b"")["type"] == ERASE
    ]
    delete_records_before(customers, "commands", erase_offset)
    return customers


def erasure_report(harness: TopicHarness) -> ErasureReport:
    return verify_erasure(harness.connection, harness.topics, harness.aggregate, harness.settings)


def test_deleted_commands_do_not_delay_erasure(harness: TopicHarness) -> None:
    report = erasure_report(harness)
    assert (
        report.violation_count,
        report.topic_search.remaining_records,
        list(report.topic_search.erased),
    ) == (0, [], ["ann"])
    assert harness.violations() == []


@pytest.mark.parametrize("machine", ["state", "new"])
def test_owners_need_no_deleted_commands(harness: TopicHarness, machine: str) -> None:
    """Owners need the deleted commands neither with a shard nor without.

    Deferred commands are in their own topic, encrypted.
    """
    release = command("cqrs.Release", "cleo", "cleo.r", {"id": "cleo.0"})
    harness.send(register_command("dan"), release, register_command("bob"))
    run_plan(harness.plan(machine=machine))
    assert harness.outcomes()[-1].data.status == "duplicate"
    run_plan(harness.plan(machine=machine))  # the released command is resubmitted
    states = decrypted_states(harness, machine)
    assert (states.pop("cleo").name, states) == (
        "Cleo",
        {"ann": REDACTED_STATE, "bob": CUSTOMER_STATE, "dan": CUSTOMER_STATE},
    )
    assert harness.violations() == []
