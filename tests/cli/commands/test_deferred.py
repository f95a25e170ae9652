"""`cqrs deferred` and `send --not-before`: deferred commands on the command line."""

from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.cli.conftest import Cqrs
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan

pytestmark = pytest.mark.kafka


@pytest.fixture
def cqrs_with_deferred(cqrs_on_broker: Cqrs, connection: Connection, prefix: str, tmp_path: Path) -> Cqrs:
    """`cqrs` on topics with two deferred commands, each of another account."""
    for name, time in (("a", "3d"), ("b", "2999-01-01T00:00:00Z")):
        cqrs_on_broker(
            "send", "bank_account", name, "Open", "owner=Ada", "--not-before", time, "--id", f"open-{name}"
        )
    harness = TopicHarness(connection, prefix, tmp_path / "owner", "bank_account", partitions=2)
    run_plan(harness.plan())
    return cqrs_on_broker


def test_deferred_commands_are_listed(cqrs_with_deferred: Cqrs) -> None:
    first, second = cqrs_with_deferred("deferred", "list", "bank_account", "-o", "json").lines
    assert [first["id"], second["id"]] == ["open-a", "open-b"]
    assert second["due"] == "2999-01-01T00:00:00.000Z"
    assert (second["reason"], second["attempt"], second["said"], second["cancelled"]) == (
        "NOT_YET",
        0,
        None,
        False,
    )
    assert second["command"]["data"] == {"owner": "Ada"}
    for options in (["--id", "open-a"], ["--aggregate-id", "a"], ["--before", "4d"]):
        lines = cqrs_with_deferred("deferred", "list", "bank_account", "-o", "json", *options).lines
        assert [line["id"] for line in lines] == ["open-a"]
    assert cqrs_with_deferred("deferred", "list", "bank_account", "--type", "Deposit").out == ""
    assert (
        "parked     b  bank_account.Open  open-b  NOT_YET"
        in cqrs_with_deferred("deferred", "list", "bank_account").out
    )


def test_cancel_sends_the_named_commands(cqrs_with_deferred: Cqrs) -> None:
    assert cqrs_with_deferred("deferred", "cancel", "bank_account").status == 2
    dry_run = cqrs_with_deferred("deferred", "cancel", "bank_account", "--all", "--dry-run", "-o", "json")
    assert len(dry_run.lines) == 2
    commands_before = cqrs_with_deferred("tail", "bank_account", "commands", "-o", "json").lines
    assert cqrs_with_deferred("deferred", "cancel", "bank_account", "--id", "open-b").status == 0
    *earlier_commands, request = cqrs_with_deferred("tail", "bank_account", "commands", "-o", "json").lines
    assert len(earlier_commands) == len(commands_before) == 2
    assert (request["message"]["type"], request["message"]["data"]) == ("cqrs.Cancel", {"id": "open-b"})
    assert cqrs_with_deferred("deferred", "release", "bank_account", "--aggregate-id", "a").status == 0
    message = cqrs_with_deferred("tail", "bank_account", "commands", "-n", "1", "-o", "json").lines[0][
        "message"
    ]
    assert (message["type"], message["subject"]) == ("cqrs.Release", "a")


@pytest.mark.parametrize("verb", ["cancel", "release"])
def test_unknown_deferred_ids_end_with_1(cqrs_on_broker: Cqrs, verb: str) -> None:
    result = cqrs_on_broker("deferred", verb, "bank_account", "--id", "nope")
    assert (result.status, result.out) == (1, "")
    assert "no deferred command of bank_account with id nope matches" in result.err


def test_dry_runs_know_deferred_commands(cqrs_with_deferred: Cqrs) -> None:
    """A dry run recognises the id of a deferred command. It shows the time at which a new command would be due."""
    call = ("send", "bank_account", "a", "Open", "owner=Ada", "--dry-run", "-o", "json")
    repeated_result = cqrs_with_deferred(*call, "--not-before", "3d", "--id", "open-a")
    assert repeated_result.status == 0
    verdict = repeated_result.document["outcome"]["data"]
    assert (verdict["status"], verdict["original"]["status"]) == ("duplicate", "deferred")
    changed_result = cqrs_with_deferred(*call[:4], "owner=Eve", *call[5:], "--id", "open-a")
    assert (changed_result.status, changed_result.document["outcome"]["data"]["reason"]) == (7, "ID_REUSED")
    deferred = cqrs_with_deferred(*call, "--not-before", "2999-01-01T00:00:00Z").document["outcome"]["data"]
    assert (deferred["status"], deferred["reason"]) == ("deferred", "NOT_YET")
    assert deferred["due"] == "2999-01-01T00:00:00.000Z"
    result = cqrs_with_deferred(
        "send", "bank_account", "a", "Open", "owner=Ada", "--dry-run", "--not-before", "2999-01-01"
    )
    assert "deferred   a  bank_account.Open  version 0  due 2999-01-01T00:00:00.000Z  NOT_YET" in result.out
