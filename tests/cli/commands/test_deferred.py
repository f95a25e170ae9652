"""`cqrs deferred` and `send --not-before`: deferred commands on the command line."""

from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.cli.conftest import Cqrs
from tests.support.harness import TopicHarness
from tests.support.owners import quietly

pytestmark = pytest.mark.kafka


@pytest.fixture
def waiting(cqrs_on_broker: Cqrs, connection: Connection, prefix: str, tmp_path: Path) -> Cqrs:
    """Two deferred commands, of two accounts."""
    for name, time in (("a", "3d"), ("b", "2999-01-01T00:00:00Z")):
        cqrs_on_broker(
            "send", "bank_account", name, "Open", "owner=Ada", "--not-before", time, "--id", f"open-{name}"
        )
    harness = TopicHarness(connection, prefix, tmp_path / "owner", "bank_account", partitions=2)
    quietly(harness.plan())
    return cqrs_on_broker


def test_waiting_commands_are_listed(waiting: Cqrs) -> None:
    first, second = waiting("deferred", "list", "bank_account", "-o", "json").lines
    assert [first["id"], second["id"]] == ["open-a", "open-b"]
    assert second["due"] == "2999-01-01T00:00:00.000Z"
    assert (second["reason"], second["attempt"], second["said"], second["cancelled"]) == (
        "NOT_YET",
        0,
        None,
        False,
    )
    assert second["command"]["data"] == {"owner": "Ada"}
    for narrow in (["--id", "open-a"], ["--aggregate-id", "a"], ["--before", "4d"]):
        lines = waiting("deferred", "list", "bank_account", "-o", "json", *narrow).lines
        assert [line["id"] for line in lines] == ["open-a"]
    assert waiting("deferred", "list", "bank_account", "--type", "Deposit").out == ""
    assert (
        "parked     b  bank_account.Open  open-b  NOT_YET" in waiting("deferred", "list", "bank_account").out
    )


def test_cancel_sends_what_it_names(waiting: Cqrs) -> None:
    assert waiting("deferred", "cancel", "bank_account").status == 2
    rehearsed = waiting("deferred", "cancel", "bank_account", "--all", "--dry-run", "-o", "json")
    assert len(rehearsed.lines) == 2
    sent = waiting("tail", "bank_account", "commands", "-o", "json").lines
    assert waiting("deferred", "cancel", "bank_account", "--id", "open-b").status == 0
    *before, request = waiting("tail", "bank_account", "commands", "-o", "json").lines
    assert len(before) == len(sent) == 2
    assert (request["message"]["type"], request["message"]["data"]) == ("cqrs.Cancel", {"id": "open-b"})
    assert waiting("deferred", "release", "bank_account", "--aggregate-id", "a").status == 0
    last = waiting("tail", "bank_account", "commands", "-n", "1", "-o", "json").lines[0]["message"]
    assert (last["type"], last["subject"]) == ("cqrs.Release", "a")


@pytest.mark.parametrize("verb", ["cancel", "release"])
def test_unknown_deferred_ids_end_with_1(cqrs_on_broker: Cqrs, verb: str) -> None:
    result = cqrs_on_broker("deferred", verb, "bank_account", "--id", "nope")
    assert (result.status, result.out) == (1, "")
    assert "no deferred command of bank_account with id nope matches" in result.err


def test_dry_runs_see_what_waits(waiting: Cqrs) -> None:
    """A dry run knows the id of a deferred command, as its owner does, and shows when a new command would be due."""
    call = ("send", "bank_account", "a", "Open", "owner=Ada", "--dry-run", "-o", "json")
    again = waiting(*call, "--not-before", "3d", "--id", "open-a")
    assert again.status == 0
    known = again.document["outcome"]["data"]
    assert (known["status"], known["original"]["status"]) == ("duplicate", "deferred")
    other = waiting(*call[:4], "owner=Eve", *call[5:], "--id", "open-a")
    assert (other.status, other.document["outcome"]["data"]["reason"]) == (7, "ID_REUSED")
    later = waiting(*call, "--not-before", "2999-01-01T00:00:00Z").document["outcome"]["data"]
    assert (later["status"], later["reason"]) == ("deferred", "NOT_YET")
    assert later["due"] == "2999-01-01T00:00:00.000Z"
    result = waiting(
        "send", "bank_account", "a", "Open", "owner=Ada", "--dry-run", "--not-before", "2999-01-01"
    )
    assert "deferred   a  bank_account.Open  version 0  due 2999-01-01T00:00:00.000Z  NOT_YET" in result.out
