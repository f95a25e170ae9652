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


def test_tail_prints_everything_in_order(decided: Cqrs) -> None:
    lines = decided("tail", "bank_account", "commands", "-o", "json").lines
    assert [set(line) >= {"partition", "offset", "timestamp", "key", "message"} for line in lines] == [
        True
    ] * 7
    assert [line["timestamp"] for line in lines] == sorted(line["timestamp"] for line in lines)
    assert [line["key"] for line in lines] == ["a", "b", "a", "a", "b", "b", "x"]


def test_tail_explains_dead_letters(decided: Cqrs) -> None:
    (line,) = decided("tail", "bank_account", "dead-letters", "-o", "json").lines
    assert (line["message"], line["encoding"]) == ("/w==", "base64")
    assert line["headers"]["cqrs.reason"] == "INVALID_ENVELOPE"


def test_tail_limits_the_record_count(decided: Cqrs) -> None:
    def keys(*arguments: str) -> list[str]:
        return [
            line["key"]
            for line in decided("tail", "bank_account", "commands", "-o", "json", *arguments).lines
        ]

    assert keys("-n", "3") == ["b", "b", "x"]
    assert keys("-n", "3", "--from", "beginning") == ["a", "b", "a"]
    assert keys("-n", "100") == ["a", "b", "a", "a", "b", "b", "x"]
    assert keys("-n", "1", "--aggregate-id", "a") == ["a"]
    assert keys("-n", "0") == keys("--from", "end") == keys("--aggregate-id", "nobody") == []


def test_tail_begins_at_offset_or_time(decided: Cqrs) -> None:
    whole = decided("tail", "bank_account", "outcomes", "-o", "json").lines
    from_offset = decided("tail", "bank_account", "outcomes", "-o", "json", "--from", "1").lines
    assert from_offset == [line for line in whole if line["offset"] >= 1]
    time = whole[3]["message"]["time"]
    from_time = decided("tail", "bank_account", "outcomes", "-o", "json", "--from", time).lines
    assert from_time == [line for line in whole if line["message"]["time"] >= time]


def test_tail_shows_one_places_record(decided: Cqrs) -> None:
    whole = decided("tail", "bank_account", "commands", "-o", "json").lines
    for record in whole:
        place = ("--partition", str(record["partition"]), "--from", str(record["offset"]), "-n", "1")
        assert decided("tail", "bank_account", "commands", "-o", "json", *place).lines == [record]
    both = ("--partition", "0", "--partition", "1")
    assert decided("tail", "bank_account", "commands", "-o", "json", *both).lines == whole


def test_tailing_unknown_partitions_ends_with_2(decided: Cqrs, prefix: str) -> None:
    result = decided("tail", "bank_account", "events", "--partition", "2")
    assert (result.status, result.err) == (
        2,
        f"error: {prefix}bank_account.events has no partition 2; it has 0 to 1\n",
    )


def test_tail_filters_by_aggregate_id(decided: Cqrs) -> None:
    result = decided("tail", "bank_account", "events", "--aggregate-id", "b")
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
def test_tail_prints_what_is_wanted(decided: Cqrs, arguments: tuple[str, ...], records: int) -> None:
    assert len(decided("tail", "bank_account", *arguments).out.splitlines()) == records


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("events", "--status", "accepted"), "--status is for outcomes"),
        (("commands", "--reason", "TOO_LARGE"), "--reason is for outcomes and dead-letters"),
        (("outcomes", "--status", "fine"), "--status: there is no 'fine'; there are: accepted, unchanged,"),
        (("outcomes", "--reason", "no"), "--reason: there is no 'no'; there are: VERSION_CONFLICT,"),
        (("outcomes", "--from", "soon"), "--from: not a time: 'soon'"),
    ],
)
def test_impossible_wishes_end_with_2(cqrs_on_broker: Cqrs, arguments: tuple[str, ...], said: str) -> None:
    result = cqrs_on_broker("tail", "bank_account", *arguments)
    assert result.status == 2 and said in result.err


def test_following_begins_at_the_end(decided: Cqrs, connection: Connection, prefix: str) -> None:
    """As for `tail`: first the last N records, or without -n only new records."""
    place = ("-b", connection.bootstrap_server, "--topic-prefix", prefix, "-o", "json")
    program = [sys.executable, "-m", "cqrs_cli", "tail", "bank_account", "commands", "-f", *place]
    with (
        subprocess.Popen([*program, "-n", "1"], stdout=subprocess.PIPE) as last,
        subprocess.Popen(program, stdout=subprocess.PIPE) as later,
    ):
        assert last.stdout is not None and later.stdout is not None
        assert json.loads(last.stdout.readline())["key"] == "x"
        for attempt in count():  # it is unknown when `later` has started to follow
            decided("send", "bank_account", f"new{attempt}", "Close")
            assert json.loads(last.stdout.readline())["key"] == f"new{attempt}"
            if select([later.stdout], [], [], 0.5)[0]:
                break
        assert json.loads(later.stdout.readline())["key"].startswith("new")
        last.terminate()
        later.terminate()


def test_tail_follows_new_records(decided: Cqrs, connection: Connection, prefix: str) -> None:
    place = ("-b", connection.bootstrap_server, "--topic-prefix", prefix, "-o", "json")
    arguments = ("tail", "bank_account", "commands", "-f", "--from", "beginning", "-n", "8", *place)
    with subprocess.Popen([sys.executable, "-m", "cqrs_cli", *arguments], stdout=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        for _ in range(7):  # existing records are printed at once
            follower.stdout.readline()
        decided("send", "bank_account", "new", "Close")
        assert json.loads(follower.stdout.readline())["key"] == "new"
        assert follower.wait(10) == 0


def test_unknown_types_are_named(decided: Cqrs, cqrs: Cqrs, connection: Connection, prefix: str) -> None:
    """The type may be an event that the code has dropped, so the message is only a note."""
    options = ["-b", connection.bootstrap_server, "--topic-prefix", prefix]
    result = cqrs("tail", "bank_account", "events", "--type", "Opend", *options)
    assert result.status == 0 and "no such command or event; did you mean Opened?" in result.err
    assert cqrs("tail", "bank_account", "outcomes", "--type", "Withdraw.accepted", *options).err == ""
