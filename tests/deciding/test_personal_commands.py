"""Commands with personal values may be deleted up to an erasure, as docs/personal.md describes: all are decided."""

from pathlib import Path

import pytest
from msgspec.json import decode

from cqrs_cli.core.erasure import ERASE
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.scans.erased.verify import ErasureReport, verify_erasure
from tests.deciding.customers import (
    CUSTOMER_STATE,
    MASKED_STATE,
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
def people(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Ann was erased, Bob was not, and Cleo's command is deferred. The commands before Ann's `Erase` are deleted."""
    found = customer_topics(connection, prefix, tmp_path)
    waits = command(
        "customer.Register", "cleo", "cleo.0", {"name": "Cleo", "mail": "c@home"}, notbefore=FAR_FUTURE
    )
    found.send(
        register_command("ann"),
        register_command("bob"),
        waits,
        erase_command("ann"),
        register_command("bob", 1),
    )
    run_plan(found.plan())
    assert [one.topic for one in proved(found).topics.waiting] == [found.topics.commands]
    (below,) = [one.offset for one in found.records("commands") if decode(one.value or b"")["type"] == ERASE]
    delete_records_before(found, "commands", below)
    return found


def proved(people: TopicHarness) -> ErasureReport:
    return verify_erasure(people.connection, people.topics, people.aggregate, people.settings)


def test_deleted_commands_are_not_waited_for(people: TopicHarness) -> None:
    done = proved(people)
    assert (done.count, done.topics.waiting, list(done.topics.erased)) == (0, [], ["ann"])
    assert people.violations() == []


@pytest.mark.parametrize("machine", ["state", "new"])
def test_owners_go_on_without_them(people: TopicHarness, machine: str) -> None:
    """Owners need the deleted commands neither with a shard nor without.

    Deferred commands are in their own topic, encrypted.
    """
    release = command("cqrs.Release", "cleo", "cleo.r", {"id": "cleo.0"})
    people.send(register_command("dan"), release, register_command("bob"))
    run_plan(people.plan(machine=machine))
    assert people.outcomes()[-1].data.status == "duplicate"
    run_plan(people.plan(machine=machine))  # the released command is resubmitted
    states = decrypted_states(people, machine)
    assert (states.pop("cleo").name, states) == (
        "Cleo",
        {"ann": MASKED_STATE, "bob": CUSTOMER_STATE, "dan": CUSTOMER_STATE},
    )
    assert people.violations() == []
