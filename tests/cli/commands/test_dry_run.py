"""`cqrs send --dry-run` decides as an owner would, and sends nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli import registry
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.cli.conftest import Cqrs
from tests.support import AGGREGATES
from tests.support.simple_owner import SimpleOwner

pytestmark = pytest.mark.kafka
BANK_ACCOUNT = registry.load("bank_account", "aggregates", AGGREGATES.parent)
JSON = ("-o", "json")

#: Members of an outcome that do not depend on the record's partition and offset.
VERDICT_MEMBERS = (
    "status",
    "reason",
    "code",
    "message",
    "version",
    "events",
    "expected",
    "fingerprint",
    "original",
)


@pytest.fixture
def owner(cqrs_on_broker: Cqrs, connection: Connection, prefix: str) -> SimpleOwner:
    return SimpleOwner(connection, Topics("bank_account", prefix), BANK_ACCOUNT)


def verdict(outcome: Any) -> dict[str, Any]:
    return {name: outcome["data"][name] for name in VERDICT_MEMBERS if name in outcome["data"]}


def command_count(cqrs: Cqrs) -> int:
    return len(cqrs("tail", "bank_account", "commands", *JSON).lines)


def test_dry_run_equals_the_decision(cqrs_on_broker: Cqrs, owner: SimpleOwner) -> None:
    open_, close = ("Open", "owner=Ada"), ("Close",)
    deposit, withdraw = ("Deposit", "amount=5"), ("Withdraw", "amount=9")
    for count_before, (command, status) in enumerate(
        [
            ((*deposit, "--id", "a"), 7),
            ((*open_, "--id", "b", "--expect", "none"), 0),
            ((*open_, "--id", "b", "--expect", "none"), 0),
            ((*close, "--id", "b"), 7),
            ((*deposit, "--id", "c", "--expect", "7"), 7),
            ((*deposit, "--id", "d", "--expect", "1"), 0),
            ((*withdraw, "--id", "e", "--expires", "2999-01-01"), 7),
        ]
    ):
        call = ("send", "bank_account", "acc-42", *command, *JSON)
        dry_run = cqrs_on_broker(*call, "--dry-run")
        assert (dry_run.status, command_count(cqrs_on_broker)) == (status, count_before)
        cqrs_on_broker(*call)
        owner.decide()
        outcome = cqrs_on_broker("tail", "bank_account", "outcomes", *JSON).lines[-1]["message"]
        lines = cqrs_on_broker("tail", "bank_account", "events", *JSON).lines
        document = dry_run.document
        assert verdict(document["outcome"]) == verdict(outcome)
        count = outcome["data"]["events"]
        events = [event["message"] for event in lines[len(lines) - count :]]
        assert [
            (event["type"], event["data"], event["aggregateversion"]) for event in document["events"]
        ] == [(event["type"], event["data"], event["aggregateversion"]) for event in events]


def test_text_shows_outcome_and_events(cqrs_on_broker: Cqrs) -> None:
    result = cqrs_on_broker("send", "bank_account", "acc-42", "Open", "owner=Ada", "--dry-run")
    assert (result.status, result.out) == (
        0,
        'accepted   acc-42  bank_account.Open  version 1\n  v1  bank_account.Opened  {"owner":"Ada"}\n',
    )


def test_commands_of_a_file_follow_each_other(cqrs_on_broker: Cqrs, tmp_path: Path) -> None:
    lines: list[tuple[str, str, dict[str, Any]]] = [
        ("a", "Open", {"owner": "Ada"}),
        ("b", "Open", {"owner": "Bob"}),
        ("a", "Deposit", {"amount": 5}),
        ("a", "Withdraw", {"amount": 6}),
        ("a", "Withdraw", {"amount": 5}),
    ]
    text = "".join(
        json.dumps({"type": f"bank_account.{command_name}", "subject": subject, "data": data}) + "\n"
        for subject, command_name, data in lines
    )
    (tmp_path / "many.ndjson").write_text(text)
    result = cqrs_on_broker("send", "--file", "many.ndjson", "--dry-run", *JSON)
    rows = [row["outcome"]["data"] for row in result.lines]
    assert [(data["status"], data["version"]) for data in rows] == [
        ("accepted", 1),
        ("accepted", 1),
        ("accepted", 2),
        ("rejected", 2),
        ("accepted", 3),
    ]
    assert result.status == 7
    assert json.loads(result.err)["error"]["message"] == "1 of 5 commands not accepted"
    assert command_count(cqrs_on_broker) == 0


def test_undecided_commands_are_named(
    cqrs: Cqrs, cqrs_on_broker: Cqrs, connection: Connection, prefix: str
) -> None:
    cqrs_on_broker("send", "bank_account", "acc-42", "Open", "owner=Ada")
    broker_flags = ("-b", connection.bootstrap_server, "--topic-prefix", prefix)
    result = cqrs("send", "bank_account", "acc-42", "Deposit", "amount=5", "--dry-run", *broker_flags)
    assert "bank_account: the dry run ignores the undecided commands in the topic, at most 1" in result.err
    assert "dry run: nothing was sent\n" in result.err


def test_missing_topics_suggest_init(cqrs: Cqrs, connection: Connection, prefix: str) -> None:
    broker_flags = ("-b", connection.bootstrap_server, "--topic-prefix", prefix)
    result = cqrs("send", "counter", "c", "Increment", "--dry-run", *broker_flags)
    assert result.status == 3
    assert "create what is missing: cqrs init" in result.err
