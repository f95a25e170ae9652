"""Deferred commands as documents."""

import json

from cqrs_cli.console.letters import described_deferrals
from cqrs_cli.core.deferral.entry import Deferral
from tests.core import tally
from tests.core.personal.customer import CUSTOMER
from tests.jobs.verify.customers import register_command
from tests.support.commands import CommandRecord, command


def deferral(record: CommandRecord) -> Deferral:
    return Deferral("topic", 0, "c-1", "x", 5, 0, 1_000, 1_007, 1, "LATER", record.value or b"")


def test_personal_fields_are_null_and_named() -> None:
    (entry,) = described_deferrals(CUSTOMER, [deferral(register_command("c-1", "Nadelheim"))])
    command_document = json.loads(bytes(entry["command"]))
    assert entry["redacted"] == ["name", "mail"]
    assert command_document["data"] == {"name": None, "mail": None, "plan": "free"}
    assert command_document["type"] == "customer.Register"


def test_other_commands_are_unchanged() -> None:
    record = command("tally.Add", "c-1", "a-1", {"amount": 7})
    (entry,) = described_deferrals(tally.AGGREGATE, [deferral(record)])
    assert bytes(entry["command"]) == record.value and "redacted" not in entry
