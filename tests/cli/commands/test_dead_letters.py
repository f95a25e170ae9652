"""`cqrs dead-letters`: failed commands are listed, sent again, or dropped."""

import getpass
import json
import os
from pathlib import Path

import pytest

from cqrs_cli.cli.attribution import attribution_of
from cqrs_cli.client.queries.dead_letters import failed_commands, retry_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.outcome import dead_letter
from cqrs_cli.core.messages.record import Headers, Record
from cqrs_cli.kafka.connection.connection import Connection
from tests.cli.conftest import Cqrs
from tests.support.commands import CommandRecord, command
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan

COMMAND = {"specversion": "1.0", "id": "c-1", "source": "/x", "type": "bank_account.Close", "subject": "acc"}


def letter_record(value: bytes | None, headers: Headers) -> Record:
    record = dead_letter(
        Record(7, 1000, b"acc", value, headers), "t.commands", 0, "HANDLER_ERROR", "it raised"
    )
    return Record(3, record.timestamp, record.key, record.value, record.headers)


def test_retried_commands_equal_the_original() -> None:
    attributes_of_the_attempt = {"notbefore": "2999-01-01T00:00:00Z", "deferredfrom": "0/1", "attempt": "2"}
    original = {**COMMAND, "expectedversion": 3, "correlationid": "x", "data": {"a": [1, 2.50]}}
    record = letter_record(json.dumps(original | attributes_of_the_attempt).encode(), list(HEADERS))
    (failed_command,) = failed_commands(iter([(0, record)]), lambda _: True)
    assert (
        failed_command.reason,
        failed_command.message,
        failed_command.command_position,
        failed_command.id,
    ) == (
        "HANDLER_ERROR",
        "it raised",
        "0@7",
        "c-1",
    )
    retried_command = retry_command("bank_account", failed_command)
    assert retried_command is not None and json.loads(retried_command.value) == original
    assert (retried_command.id, retried_command.subject, retried_command.type) == (
        "c-1",
        "acc",
        "bank_account.Close",
    )


def test_binary_commands_become_documents() -> None:
    headers: Headers = [(f"ce_{name}", text.encode()) for name, text in COMMAND.items()]
    (failed_command,) = failed_commands(iter([(0, letter_record(b'{"a":1}', headers))]), lambda _: True)
    retried_command = retry_command("bank_account", failed_command)
    assert retried_command is not None and json.loads(retried_command.value) == {**COMMAND, "data": {"a": 1}}


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b'{"specversion":"1.0"}'])
def test_unreadable_values_are_not_retried(value: bytes | None) -> None:
    (failed_command,) = failed_commands(iter([(0, letter_record(value, list(HEADERS)))]), lambda _: True)
    assert failed_command.command is None and retry_command("bank_account", failed_command) is None


@pytest.fixture
def cqrs_with_dead_letters(cqrs_on_broker: Cqrs, connection: Connection, prefix: str, tmp_path: Path) -> Cqrs:
    """`cqrs` on topics with dead letters: two commands of unknown types, and a record that is not a command."""
    harness = TopicHarness(connection, prefix, tmp_path / "owner", "bank_account", partitions=2)
    harness.send(*(command("bank_account.Fly", name, f"c-{name}") for name in ("a", "b")))
    harness.send(CommandRecord(b"x", b"?"))
    run_plan(harness.plan())
    return cqrs_on_broker


@pytest.mark.kafka
def test_letters_are_listed_and_retried(cqrs_with_dead_letters: Cqrs) -> None:
    lines = cqrs_with_dead_letters("dead-letters", "list", "bank_account", "-o", "json").lines
    assert sorted((line["id"] or "", line["reason"]) for line in lines) == [
        ("", "INVALID_ENVELOPE"),
        ("c-a", "UNKNOWN_TYPE"),
        ("c-b", "UNKNOWN_TYPE"),
    ]
    for options in (["--id", "c-a"], ["--aggregate-id", "a"]):
        (letter,) = cqrs_with_dead_letters(
            "dead-letters", "list", "bank_account", "--full", "-o", "json", *options
        ).lines
        assert letter["record"]["message"]["id"] == "c-a"
    assert cqrs_with_dead_letters("dead-letters", "list", "bank_account", "--before", "1h").out == ""
    assert cqrs_with_dead_letters("dead-letters", "list", "bank_account", "--reason", "EXPIRED").status == 2
    assert cqrs_with_dead_letters("dead-letters", "retry", "bank_account").status == 2
    count_before = len(cqrs_with_dead_letters("tail", "bank_account", "commands", "-o", "json").lines)
    dry_run = cqrs_with_dead_letters(
        "dead-letters", "retry", "bank_account", "--all", "--dry-run", "-o", "json"
    )
    assert len(dry_run.lines) == 2  # a retry cannot send the unreadable command
    result = cqrs_with_dead_letters("dead-letters", "retry", "bank_account", "--all", "-o", "json")
    assert (result.lines[0]["sent"], result.lines[0]["unreadable"]) == (2, 1)
    assert (
        len(cqrs_with_dead_letters("tail", "bank_account", "commands", "-o", "json").lines)
        == count_before + 2
    )


@pytest.mark.kafka
def test_retries_send_each_command_once(
    cqrs_with_dead_letters: Cqrs, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    """Every failed retry adds a dead letter. Only the last dead letter of a command is sent again."""
    for _ in range(3):
        (document,) = cqrs_with_dead_letters(
            "dead-letters", "retry", "bank_account", "--all", "-o", "json"
        ).lines
        assert document["sent"] == 2
        run_plan(TopicHarness(connection, prefix, tmp_path / "owner", "bank_account", partitions=2).plan())
    (document,) = cqrs_with_dead_letters(
        "dead-letters", "retry", "bank_account", "--id", "c-a", "-o", "json"
    ).lines
    assert document["sent"] == 1


@pytest.mark.kafka
def test_dropped_letters_are_gone(
    cqrs_with_dead_letters: Cqrs, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    """A dropped letter is no violation, like letters deleted by retention."""
    assert cqrs_with_dead_letters("dead-letters", "drop", "bank_account").status == 2
    assert (
        cqrs_with_dead_letters("dead-letters", "drop", "bank_account", "--before", "0s", "--id", "c-a").status
        == 2
    )
    assert (
        len(
            cqrs_with_dead_letters(
                "dead-letters", "drop", "bank_account", "--before", "0s", "--dry-run", "-o", "json"
            ).lines
        )
        == 3
    )
    assert cqrs_with_dead_letters(
        "dead-letters", "drop", "bank_account", "--before", "1h", "-o", "json"
    ).lines == [{"dropped": 0}]
    assert cqrs_with_dead_letters(
        "dead-letters", "drop", "bank_account", "--before", "0s", "-o", "json"
    ).lines == [{"dropped": 3}]
    assert cqrs_with_dead_letters("dead-letters", "list", "bank_account").out == ""
    for aggregate_id in ("a", "b"):
        traced = cqrs_with_dead_letters("trace", aggregate_id).out
        assert f"dead letter  dropped by {getpass.getuser()} at 20" in traced
    assert TopicHarness(connection, prefix, tmp_path, "bank_account", partitions=2).violations() == []


def test_actor_of_invalid_bytes_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", os.fsdecode(b"ann\xff"))
    assert attribution_of("drop") == ("ann?", "drop")


@pytest.mark.kafka
def test_open_letters_exclude_accepted_commands(
    cqrs_with_dead_letters: Cqrs, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    """`a` is accepted when retried. `b` fails again, and only its last letter is listed."""
    list_open = ["dead-letters", "list", "bank_account", "--open", "-o", "json"]
    assert len(cqrs_with_dead_letters(*list_open).lines) == 3
    accepted_command = {
        **COMMAND,
        "id": "c-a",
        "subject": "a",
        "type": "bank_account.Open",
        "data": {"owner": "Ada"},
    }
    (tmp_path / "accepted.ndjson").write_text(json.dumps(accepted_command))
    cqrs_with_dead_letters("send", "--file", str(tmp_path / "accepted.ndjson"))
    cqrs_with_dead_letters("dead-letters", "retry", "bank_account", "--id", "c-b")
    run_plan(TopicHarness(connection, prefix, tmp_path / "owner", "bank_account", partitions=2).plan())
    remaining = cqrs_with_dead_letters(*list_open).lines
    assert sorted(line["id"] or "" for line in remaining) == ["", "c-b"]
    (first, last) = cqrs_with_dead_letters(
        "dead-letters", "list", "bank_account", "--id", "c-b", "-o", "json"
    ).lines
    assert last["offset"] in [line["offset"] for line in remaining] and first["offset"] != last["offset"]
