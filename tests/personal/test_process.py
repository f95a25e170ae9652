"""A process manager of personal data: `react` gets values if it has the keyring, else redacted values, and erasures."""

import json
from base64 import b64encode
from dataclasses import replace

import pytest

from cqrs_cli.errors import ContradictionError
from cqrs_cli.following.processes.load import load_process
from cqrs_cli.following.processes.prepare import prepare_processes
from cqrs_cli.kafka.admin.positions import ensure_positions
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.keys.address import KeyRingAddress
from tests.following.processes.process_harness import run_in_this_process
from tests.personal.people import FIRST_KEY, SECOND_KEY, People
from tests.support.harness import SHORT_TIMEOUTS

pytestmark = pytest.mark.kafka

_CODE = """
from collections.abc import Iterator

import cqrs_cli as cqrs
from people.customer import Register, Registered


def react(event: Registered | cqrs.Erased, at: cqrs.Recorded[Registered | cqrs.Erased]) -> Iterator[cqrs.Send]:
    copy = f"copy-of-{at.aggregate_id}"
    if isinstance(event, cqrs.Erased):
        yield cqrs.Send("customer", copy, cqrs.Erase())
    else:
        yield cqrs.Send("customer", copy, Register(event.name or "nobody", event.mail))


process = cqrs.Process(react)
"""


@pytest.fixture
def copying(people: People) -> People:
    """People with a process manager that copies them, and has not started."""
    (people.folder / "processes").mkdir()
    (people.folder / "processes/copying.py").write_text(_CODE)
    with Admin(people.connection) as admin:
        ensure_positions(admin, ProcessTopics("copying", people.topics.prefix))
    return people


def run_process(people: People, connection: Connection) -> list[BaseException]:
    """Run the process manager up to the present end of the events, and return the errors."""
    loaded = {"copying": load_process("copying", people.folder, "people")}
    plan = prepare_processes(people.harness.settings, connection, loaded, once=True, from_beginning=True)
    results = run_in_this_process(replace(plan, timing=SHORT_TIMEOUTS))
    return [result.error for result in results if result.error is not None]


def sent_commands(people: People) -> list[tuple[str, str, object]]:
    """Return (type, subject, name) of the commands."""
    commands = [json.loads(record.value or b"") for record in people.harness.records("commands")]
    return [(command["type"], command["subject"], command["data"].get("name")) for command in commands]


def register_copy(subject: str, name: str) -> tuple[str, str, object]:
    return "customer.Register", f"copy-of-{subject}", name


def erase_copy(subject: str) -> tuple[str, str, object]:
    return "cqrs.Erase", f"copy-of-{subject}", None


def test_process_has_values_until_the_erasure(copying: People) -> None:
    copying.register_with_new_key("ann", FIRST_KEY)
    copying.register_with_new_key("bob", SECOND_KEY)
    assert run_process(copying, copying.connection) == []
    expected_commands = [register_copy("ann", "Ann Smith"), register_copy("bob", "Ann Smith")]
    assert sent_commands(copying) == expected_commands
    copying.erase("ann", FIRST_KEY)
    assert run_process(copying, copying.connection) == []
    assert run_process(copying, copying.connection) == []  # no event is processed twice
    assert sent_commands(copying) == [*expected_commands, erase_copy("ann")]


def test_process_without_keyring_gets_redacted_values(copying: People) -> None:
    copying.register_with_new_key("ann", FIRST_KEY)
    assert run_process(copying, copying.connection_without_keyring) == []
    assert sent_commands(copying) == [register_copy("ann", "nobody")]
    copying.erase("ann", FIRST_KEY)
    assert run_process(copying, copying.connection_without_keyring) == []
    assert sent_commands(copying) == [register_copy("ann", "nobody"), erase_copy("ann")]


def test_erased_values_reach_processes_redacted(copying: People) -> None:
    """The process manager starts after the erasure."""
    copying.register_with_new_key("ann", FIRST_KEY)
    copying.erase("ann", FIRST_KEY)
    assert run_process(copying, copying.connection) == []
    assert sent_commands(copying) == [register_copy("ann", "nobody"), erase_copy("ann")]


def test_missing_kek_stops_the_process(copying: People) -> None:
    """The process manager continues at its position once the keyring is complete."""
    copying.register_with_new_key("ann", FIRST_KEY)
    keyring = json.dumps({"other": b64encode(b"o" * 64).decode()})
    (copying.folder / "lacking.json").write_text(keyring)
    connection_with_other_kek = replace(
        copying.connection, keys=KeyRingAddress("file:lacking.json", copying.folder)
    )
    (error,) = run_process(copying, connection_with_other_kek)
    assert isinstance(error, ContradictionError) and "'2026', which is not in the keyring" in str(error)
    assert sent_commands(copying) == []
    assert run_process(copying, copying.connection) == []
    assert sent_commands(copying) == [register_copy("ann", "Ann Smith")]
