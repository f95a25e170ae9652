"""`cqrs tail` on topics that an owner has decided."""

import json
import subprocess
import sys
from itertools import count
from select import select

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.cli.conftest import Cqrs

pytestmark = pytest.mark.kafka


def test_tail_prints_everything_in_order(cqrs_on_decisions: Cqrs) -> None:
    lines = cqrs_on_decisions("tail", "bank_account", "commands", "-o", "json").lines
    assert [set(line) >= {"partition", "offset", "timestamp", "key", "message"} for line in lines] == [
        True
    ] * 7
    assert [line["timestamp"] for line in lines] == sorted(line["timestamp"] for line in lines)
    assert [line["key"] for line in lines] == ["a", "b", "a", "a", "b", "b", "x"]


def test_tail_explains_dead_letters(cqrs_on_decisions: Cqrs) -> None:
    (line,) = cqrs_on_decisions("tail", "bank_account", "dead-letters", "-o", "json").lines
    assert (line["message"], line["encoding"]) == ("/w==", "base64")
    assert line["headers"]["cqrs.reason"] == "INVALID_ENVELOPE"


def test_tail_limits_the_record_count(cqrs_on_decisions: Cqrs) -> None:
    def keys(*arguments: str) -> list[str]:
        return [
            line["key"]
            for line in cqrs_on_decisions("tail", "bank_account", "commands", "-o", "json", *arguments).lines
        ]

    assert keys("-n", "3") == ["b", "b", "x"]
    assert keys("-n", "3", "--from", "beginning") == ["a", "b", "a"]
    assert keys("-n", "100") == ["a", "b", "a", "a", "b", "b", "x"]
    assert keys("-n", "1", "--aggregate-id", "a") == ["a"]
    assert keys("-n", "0") == keys("--from", "end") == keys("--aggregate-id", "unknown") == []


def test_tail_begins_at_offset_or_time(cqrs_on_decisions: Cqrs) -> None:
    all_lines = cqrs_on_decisions("tail", "bank_account", "outcomes", "-o", "json").lines
    from_offset = cqrs_on_decisions("tail", "bank_account", "outcomes", "-o", "json", "--from", "1").lines
    assert from_offset == [line for line in all_lines if line["offset"] >= 1]
    time = all_lines[3]["message"]["time"]
    from_time = cqrs_on_decisions("tail", "bank_account", "outcomes", "-o", "json", "--from", time).lines
    assert from_time == [line for line in all_lines if line["message"]["time"] >= time]


def test_tail_shows_the_record_at_an_offset(cqrs_on_decisions: Cqrs) -> None:
    all_lines = cqrs_on_decisions("tail", "bank_account", "commands", "-o", "json").lines
    for record in all_lines:
        options = ("--partition", str(record["partition"]), "--from", str(record["offset"]), "-n", "1")
        assert cqrs_on_decisions("tail", "bank_account", "commands", "-o", "json", *options).lines == [record]
    both_partitions = ("--partition", "0", "--partition", "1")
    assert (
        cqrs_on_decisions("tail", "bank_account", "commands", "-o", "json", *both_partitions).lines
        == all_lines
    )


def test_tailing_unknown_partitions_ends_with_2(cqrs_on_decisions: Cqrs, prefix: str) -> None:
    result = cqrs_on_decisions("tail", "bank_account", "events", "--partition", "2")
    assert (result.status, result.err) == (
        2,
        f"error: {prefix}bank_account.events has no partition 2; it has 0 to 1\n",
    )


def test_tail_filters_by_aggregate_id(cqrs_on_decisions: Cqrs) -> None:
    result = cqrs_on_decisions("tail", "bank_account", "events", "--aggregate-id", "b")
    assert [text.split("  ", 3)[3] for text in result.out.splitlines()] == [
        'v1  bank_account.Opened  {"owner":"Bob"}',
        'v2  bank_account.Deposited  {"amount":5}',
    ]


@pytest.mark.parametrize(
    ("arguments", "records"),
    [
        (("events", "--type", "Opened"), 2),
        (("events", "--type", "bank_account.Opened", "--type", "Withdrawn"), 3),
        (("commands", "--type", "Withdraw"), 2),
        (("outcomes", "--type", "Withdraw"), 2),
        (("outcomes", "--type", "Withdraw.accepted"), 1),
        (("outcomes", "--status", "rejected"), 1),
        (("outcomes", "--status", "accepted", "--aggregate-id", "b"), 2),
        (("outcomes", "--reason", "BUSINESS_RULE", "--status", "rejected"), 1),
        (("outcomes", "--reason", "BUSINESS_RULE", "--status", "accepted"), 0),
        (("dead-letters", "--reason", "INVALID_ENVELOPE"), 1),
        (("dead-letters", "--reason", "TOO_LARGE"), 0),
        (("events", "--from", "1h"), 5),
    ],
)
def test_tail_filters_records(cqrs_on_decisions: Cqrs, arguments: tuple[str, ...], records: int) -> None:
    assert len(cqrs_on_decisions("tail", "bank_account", *arguments).out.splitlines()) == records


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("events", "--status", "accepted"), "--status is for outcomes"),
        (("commands", "--reason", "TOO_LARGE"), "--reason is for outcomes and dead-letters"),
        (("outcomes", "--status", "fine"), "--status: there is no 'fine'; there are: accepted, unchanged,"),
        (("outcomes", "--reason", "no"), "--reason: there is no 'no'; there are: VERSION_CONFLICT,"),
        (("outcomes", "--from", "soon"), "--from: not a time: 'soon'"),
    ],
)
def test_impossible_filters_end_with_2(
    cqrs_on_broker: Cqrs, arguments: tuple[str, ...], message: str
) -> None:
    result = cqrs_on_broker("tail", "bank_account", *arguments)
    assert result.status == 2 and message in result.err


def test_following_starts_at_the_end(cqrs_on_decisions: Cqrs, connection: Connection, prefix: str) -> None:
    """Like `tail -f`: first the last N records with -n, otherwise only new records."""
    broker_flags = ("-b", connection.bootstrap_server, "--topic-prefix", prefix, "-o", "json")
    program = [sys.executable, "-m", "cqrs_cli", "tail", "bank_account", "commands", "-f", *broker_flags]
    with (
        subprocess.Popen([*program, "-n", "1"], stdout=subprocess.PIPE) as tail_of_last,
        subprocess.Popen(program, stdout=subprocess.PIPE) as tail_of_new,
    ):
        assert tail_of_last.stdout is not None and tail_of_new.stdout is not None
        assert json.loads(tail_of_last.stdout.readline())["key"] == "x"
        for attempt in count():  # the test cannot know when `tail_of_new` starts to read
            cqrs_on_decisions("send", "bank_account", f"new{attempt}", "Close")
            assert json.loads(tail_of_last.stdout.readline())["key"] == f"new{attempt}"
            if select([tail_of_new.stdout], [], [], 0.5)[0]:
                break
        assert json.loads(tail_of_new.stdout.readline())["key"].startswith("new")
        tail_of_last.terminate()
        tail_of_new.terminate()


def test_tail_follows_new_records(cqrs_on_decisions: Cqrs, connection: Connection, prefix: str) -> None:
    broker_flags = ("-b", connection.bootstrap_server, "--topic-prefix", prefix, "-o", "json")
    arguments = ("tail", "bank_account", "commands", "-f", "--from", "beginning", "-n", "8", *broker_flags)
    with subprocess.Popen([sys.executable, "-m", "cqrs_cli", *arguments], stdout=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        for _ in range(7):  # existing records are printed at once
            follower.stdout.readline()
        cqrs_on_decisions("send", "bank_account", "new", "Close")
        assert json.loads(follower.stdout.readline())["key"] == "new"
        assert follower.wait(10) == 0


def test_unknown_types_are_named(
    cqrs_on_decisions: Cqrs, cqrs: Cqrs, connection: Connection, prefix: str
) -> None:
    """The type may be an event that the code has dropped, so the message is only a note."""
    options = ["-b", connection.bootstrap_server, "--topic-prefix", prefix]
    result = cqrs("tail", "bank_account", "events", "--type", "Opend", *options)
    assert result.status == 0 and "no such command or event; did you mean Opened?" in result.err
    assert cqrs("tail", "bank_account", "outcomes", "--type", "Withdraw.accepted", *options).err == ""
