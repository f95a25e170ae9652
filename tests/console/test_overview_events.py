"""The events of the overview: the whole document, then what has changed since the poll before."""

import json
from typing import Any

from msgspec.structs import replace

from cqrs_cli.errors import UnavailableError
from cqrs_cli.ownership.claim import Counts
from cqrs_cli.status.partition import PartitionOwner
from cqrs_cli.telemetry.status_file import SlowCommand
from tests.console.polls import Polls
from tests.support.statuses import OWNER, decided_partition, subscribed_partition

BUSY = decided_partition(1, counts=Counts(accepted=11), end=11, position=11)


def changed_partitions(event: tuple[str, Any], group: str = "bank") -> list[int]:
    name, data = event
    assert name == "changes"
    groups = data["status"]["aggregates"] | data["status"]["processes"]
    return [partition["partition"] for partition in groups[group]["partitions"]]


def test_only_changed_partitions_are_sent() -> None:
    polls = Polls()
    name, first = polls.read(*map(decided_partition, range(3)), subscribed_partition())
    assert (name, len(first["status"]["aggregates"]["bank"]["partitions"])) == ("overview", 3)
    second = polls.read(decided_partition(0), BUSY, decided_partition(2), subscribed_partition(lag=4))
    assert changed_partitions(second) == [1] and changed_partitions(second, "checkout") == [0]
    (partition,) = second[1]["status"]["aggregates"]["bank"]["partitions"]
    assert (partition["end"], partition["owner"]["commands"]) == (11, 11)


def test_changes_of_an_idle_poll_are_small() -> None:
    polls = Polls()
    polls.read(*map(decided_partition, range(1_000)))
    name, changes = polls.read(*map(decided_partition, range(1_000)))
    assert changes.keys() == {"time", "time_ms", "status", "point"}
    assert (name, len(json.dumps(changes)) < 1_000) == ("changes", True)


def test_ages_change_no_partition() -> None:
    silent = PartitionOwner("a", since=1_000, silent_seconds=20)
    waiting = replace(decided_partition(), lag=2, oldest_timestamp=5_000)
    polls = Polls()
    polls.read(replace(waiting, owner=silent, oldest_age_ms=1_000))
    later = silent._replace(silent_seconds=21)
    event = polls.read(replace(waiting, owner=later, oldest_age_ms=2_000))
    assert (changed_partitions(event), event[1]["silent_runs"]) == ([], {"a": 21})
    (document,) = json.loads(polls.encoder.document())["status"]["aggregates"]["bank"]["partitions"]
    assert document["oldest"] == "1970-01-01T00:00:05.000Z" and "silent_seconds" not in document["owner"]


def test_age_of_a_slow_command_is_sent() -> None:
    slow, polls = decided_partition(lag=1, slow_command=SlowCommand(7, 0.0)), Polls()
    polls.read(slow)
    (partition,) = polls.read(replace(slow, slow_command=SlowCommand(7, -5.0)))[1]["status"]["aggregates"][
        "bank"
    ]["partitions"]
    assert "command 7 is being decided" in partition["remarks"][0]


def test_other_partitions_need_the_whole_document() -> None:
    polls = Polls()
    polls.read(decided_partition(0))
    assert polls.read(decided_partition(0), decided_partition(1))[0] == "overview"
    assert polls.read(decided_partition(0), decided_partition(1, "shop"))[0] == "overview"
    assert polls.read(decided_partition(0))[0] == "overview"
    assert polls.read(decided_partition(0))[0] == "changes"


def test_missed_poll_needs_the_whole_document() -> None:
    polls = Polls()
    polls.read(decided_partition(1))
    polls.poll(BUSY)
    polls.encoder.document()  # for another client
    name, document = polls.read(BUSY)
    assert (name, document["status"]["aggregates"]["bank"]["partitions"][0]["end"]) == ("overview", 11)


def test_clients_share_an_event() -> None:
    polls = Polls()
    polls.read(decided_partition(1))
    first = polls.sent
    polls.poll(BUSY)
    assert polls.encoder.next_event(first)[1] is polls.encoder.next_event(first)[1]


def test_error_keeps_the_partitions() -> None:
    polls = Polls()
    polls.read(decided_partition(owner=OWNER))
    polls.sample = polls.sample._replace(error=UnavailableError("no broker answers"))
    polls.sent, event = polls.encoder.next_event(polls.sent)
    assert event.startswith("event: changes") and "no broker answers" in event
    name, changes = polls.read(decided_partition(owner=OWNER))
    assert (name, changes["error"], changes["problems"]) == ("changes", None, [])
