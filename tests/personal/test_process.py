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
from tests.support.harness import IMPATIENT

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


def reacted(people: People, connection: Connection) -> list[BaseException]:
    """Run the process manager up to the present end of the events, and return the errors."""
    loaded = {"copying": load_process("copying", people.folder, "people")}
    plan = prepare_processes(people.harness.settings, connection, loaded, once=True, beginning=True)
    results = run_in_this_process(replace(plan, timing=IMPATIENT))
    return [one.error for one in results if one.error is not None]


def sent(people: People) -> list[tuple[str, str, object]]:
    """Return (type, subject, name) of the commands."""
    found = [json.loads(one.value or b"") for one in people.harness.records("commands")]
    return [(one["type"], one["subject"], one["data"].get("name")) for one in found]


def copied(subject: str, name: str) -> tuple[str, str, object]:
    return "customer.Register", f"copy-of-{subject}", name


def ended(subject: str) -> tuple[str, str, object]:
    return "cqrs.Erase", f"copy-of-{subject}", None


def test_process_has_values_until_the_erasure(copying: People) -> None:
    copying.register_with_new_key("ann", FIRST_KEY)
    copying.register_with_new_key("bob", SECOND_KEY)
    assert reacted(copying, copying.connection) == []
    wanted = [copied("ann", "Ann Smith"), copied("bob", "Ann Smith")]
    assert sent(copying) == wanted
    copying.erase("ann", FIRST_KEY)
    assert reacted(copying, copying.connection) == []
    assert reacted(copying, copying.connection) == []  # no event is processed twice
    assert sent(copying) == [*wanted, ended("ann")]


def test_process_without_ring_has_placeholders(copying: People) -> None:
    copying.register_with_new_key("ann", FIRST_KEY)
    assert reacted(copying, copying.connection_without_keyring) == []
    assert sent(copying) == [copied("ann", "nobody")]
    copying.erase("ann", FIRST_KEY)
    assert reacted(copying, copying.connection_without_keyring) == []
    assert sent(copying) == [copied("ann", "nobody"), ended("ann")]


def test_what_is_erased_has_placeholders(copying: People) -> None:
    """The process manager starts after the erasure."""
    copying.register_with_new_key("ann", FIRST_KEY)
    copying.erase("ann", FIRST_KEY)
    assert reacted(copying, copying.connection) == []
    assert sent(copying) == [copied("ann", "nobody"), ended("ann")]


def test_lacking_master_key_stops_the_process(copying: People) -> None:
    """The process manager continues at its position once the keyring is complete."""
    copying.register_with_new_key("ann", FIRST_KEY)
    ring = json.dumps({"other": b64encode(b"o" * 64).decode()})
    (copying.folder / "lacking.json").write_text(ring)
    lacking = replace(copying.connection, keys=KeyRingAddress("file:lacking.json", copying.folder))
    (error,) = reacted(copying, lacking)
    assert isinstance(error, ContradictionError) and "'2026', which is not in the keyring" in str(error)
    assert sent(copying) == []
    assert reacted(copying, copying.connection) == []
    assert sent(copying) == [copied("ann", "Ann Smith")]
