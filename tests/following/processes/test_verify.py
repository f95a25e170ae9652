"""`cqrs verify --process` on real topics."""

import json
from pathlib import Path

import pytest

from cqrs_cli.cli.main import main
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.added_partitions import add_partitions, create_lineage_topic
from cqrs_cli.keyspace.lineage_log import request_repartitioning
from cqrs_cli.keyspace.records import Grow
from tests.following.processes.process_harness import ProcessHarness, order_placed, read_records
from tests.support.checkout import PROCESS, verify_reactions
from tests.support.user_code import write_process

pytestmark = pytest.mark.kafka


@pytest.mark.covers("reacted-once")
def test_skips_and_starts_are_no_violations(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """Events before the start have no commands, and an event that an operator skipped has none."""
    process = PROCESS.format(then="1 / 0").replace('== "o-0-5"', 'in ("o-0-5", "o-0-7")')
    harness = ProcessHarness(connection, prefix, write_process(tmp_path, process), "mine")
    harness.place_orders(100, 3)
    harness.run_once()
    harness.write_events(map(order_placed, range(10)))
    first = harness.run_once_error().hint.partition("--skip ")[2]
    second = harness.run_once_error(skip=[first]).hint.partition("--skip ")[2]
    harness.run_once(skip=[second])
    reactions = verify_reactions(harness)
    assert (reactions.listed_violations, reactions.command_count, reactions.changed_commands) == ([], 8, 0)


@pytest.mark.covers("reacted-once")
def test_forged_id_is_a_violation(harness: ProcessHarness) -> None:
    """A command forged under the process manager's source is reported. Only an ACL prevents it."""
    harness.run_once()
    harness.place_orders(0, 1)
    harness.run_once()
    (first, *_) = harness.sent_commands()
    forged = {name: value for name, value in first.items() if name not in ("partition", "key")}
    forged |= {"data": {"customer": "eve"}, "id": f"checkout/{harness.events}/0/1/0@1800000000001/0"}
    producer = clients.producer(harness.connection)
    producer.produce(harness.topic("commands"), json.dumps(forged).encode(), b"o-1", 0, headers=list(HEADERS))
    assert producer.flush(10) == 0
    harness.place_orders(1, 1)
    harness.run_once()
    violations = "; ".join(verify_reactions(harness).listed_violations)
    assert "the id of command 0 was taken by" in violations and "command 0 was sent 2 times" in violations


@pytest.mark.covers("reacted-once")
def test_forged_commands_are_violations(
    harness: ProcessHarness, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.run_once()
    harness.place_orders(0, 5)
    harness.run_once()
    assert verify_reactions(harness).listed_violations == []
    (first, *_) = harness.sent_commands()
    copy = {name: value for name, value in first.items() if name not in ("partition", "key")}
    producer = clients.producer(harness.connection)
    stray = copy | {"id": f"checkout/{harness.events}/9/9/0@7/0"}
    resubmitted = copy | {"deferredfrom": "0/0"}  # by an owner: no violation
    for document in (copy, stray, resubmitted):
        producer.produce(harness.topic("commands"), json.dumps(document).encode(), b"k", 0)
    assert producer.flush(10) == 0
    monkeypatch.chdir(harness.root)
    server = ["-b", harness.connection.bootstrap_server, "--topic-prefix", harness.prefix]
    capfd.readouterr()
    assert main(["verify", "--process", "checkout", "-o", "json", *server]) == 5
    result = json.loads(capfd.readouterr().out.splitlines()[0])
    assert result["violation_count"] == 3 and result["commands"] == 12
    text = "; ".join(result["violations"])
    assert "command 0 was sent 2 times" in text and "/9/9/0@7: there is no such event" in text
    assert main(["verify", "--process", "checkout", "--process", "order", *server]) == 2


@pytest.mark.covers("reacted-once")
def test_faulty_positions_and_events_are_violations(harness: ProcessHarness) -> None:
    """None of them ends the verification."""
    harness.run_once()
    harness.place_orders(0, 2)
    harness.run_once()
    topic, key = harness.topics.positions_topic, f"{harness.events}/0".encode()
    producer = clients.producer(harness.connection)
    producer.produce(topic, b"?", key, 0)
    producer.produce(topic, b"{}", key, 0)
    producer.produce(harness.events, b"?", b"o-1", 0)
    assert producer.flush(10) == 0
    first, second, third = verify_reactions(harness).listed_violations
    assert first.startswith(f"{topic}:0@") and "it is not a position: JSON is malformed" in first
    assert "it is not a position: Object missing required field" in second
    assert third.startswith(f"{harness.events}:0@") and "the event cannot be read" in third


@pytest.mark.covers("reacted-once")
def test_position_of_recreated_topic(harness: ProcessHarness) -> None:
    """The new events topic holds the records of the old topic, so only its id differs."""
    harness.place_orders(0, 5)
    harness.run_once(from_beginning=True)
    harness.delete_topics(harness.events)
    harness.create_topics()
    harness.place_orders(0, 5)
    position = harness.position()
    assert position is not None
    problem = f"the position {position.offset} is of another topic: this one was created since"
    assert verify_reactions(harness).listed_violations == [f"{harness.events}:0: {problem}"]


def test_repartitioned_target_is_no_violation(harness: ProcessHarness) -> None:
    """Older commands stay in their earlier partition, and a forwarded command counts once."""
    harness.run_once()
    harness.place_orders(0, 5)
    harness.run_once()
    topics = Topics("payment", harness.prefix)
    count = readers.partition_count(harness.connection, topics.commands)
    with Admin(harness.connection) as admin:
        create_lineage_topic(admin, topics)
        request_repartitioning(harness.connection, topics, Grow(count, 4 * count))
        add_partitions(admin, topics, 4 * count)
    forward(harness, read_records(harness.connection, topics.commands, 0)[0])
    harness.place_orders(5, 5)
    harness.run_once()
    reactions = verify_reactions(harness)
    assert (reactions.listed_violations, reactions.command_count, reactions.changed_commands) == ([], 20, 0)


def forward(harness: ProcessHarness, command: Record) -> None:
    """Forward a command as the owner of partition 0 does."""
    end = b',"forwardedfrom":"0/%d"}' % command.offset
    producer = clients.producer(harness.connection)
    value = (command.value or b"")[:-1] + end
    producer.produce(harness.topic("commands"), value, command.key, 2, headers=list(HEADERS))
    assert producer.flush(10) == 0
