"""`cqrs verify --process` on real topics."""

import json
from pathlib import Path

import pytest

from cqrs_cli.cli.main import main
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.repartitioning import Grow
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.repartitioning import add_partitions, create_lineage_topic
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.lineage_log import request_repartitioning
from cqrs_cli.kafka.topics.topics import Topics
from tests.following.processes.process_harness import Stage, placed, records
from tests.support.checkout import PROCESS, verified
from tests.support.user_code import write_process

pytestmark = pytest.mark.kafka


@pytest.mark.covers("reacted-once")
def test_skips_and_beginnings_are_clean(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """Events before the start have no commands, and an event that an operator skipped has none."""
    process = PROCESS.format(then="1 / 0").replace('== "o-0-5"', 'in ("o-0-5", "o-0-7")')
    stage = Stage(connection, prefix, write_process(tmp_path, process), "mine")
    stage.place(100, 3)
    stage.react()
    stage.write(map(placed, range(10)))
    first = stage.error().hint.partition("--skip ")[2]
    second = stage.error(skip=[first]).hint.partition("--skip ")[2]
    stage.react(skip=[second])
    found = verified(stage)
    assert (found.named, found.commands, found.others) == ([], 8, 0)


@pytest.mark.covers("reacted-once")
def test_taken_id_is_named(stage: Stage) -> None:
    """A command forged under the process manager's source is reported. Only an ACL prevents it."""
    stage.react()
    stage.place(0, 1)
    stage.react()
    (first, *_) = stage.commands()
    forged = {name: value for name, value in first.items() if name not in ("partition", "key")}
    forged |= {"data": {"customer": "eve"}, "id": f"checkout/{stage.events}/0/1/0@1800000000001/0"}
    producer = clients.producer(stage.connection)
    producer.produce(stage.topic("commands"), json.dumps(forged).encode(), b"o-1", 0, headers=list(HEADERS))
    assert producer.flush(10) == 0
    stage.place(1, 1)
    stage.react()
    named = "; ".join(verified(stage).named)
    assert "the id of command 0 was taken by" in named and "command 0 was sent 2 times" in named


@pytest.mark.covers("reacted-once")
def test_planted_commands_are_found(
    stage: Stage, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.react()
    stage.place(0, 5)
    stage.react()
    assert verified(stage).named == []
    (first, *_) = stage.commands()
    copy = {name: value for name, value in first.items() if name not in ("partition", "key")}
    producer = clients.producer(stage.connection)
    stray = copy | {"id": f"checkout/{stage.events}/9/9/0@7/0"}
    resubmitted = copy | {"deferredfrom": "0/0"}  # by an owner: no violation
    for document in (copy, stray, resubmitted):
        producer.produce(stage.topic("commands"), json.dumps(document).encode(), b"k", 0)
    assert producer.flush(10) == 0
    monkeypatch.chdir(stage.root)
    server = ["-b", stage.connection.bootstrap_server, "--topic-prefix", stage.prefix]
    capfd.readouterr()
    assert main(["verify", "--process", "checkout", "-o", "json", *server]) == 5
    said = json.loads(capfd.readouterr().out.splitlines()[0])
    assert said["violation_count"] == 3 and said["commands"] == 12
    text = "; ".join(said["violations"])
    assert "command 0 was sent 2 times" in text and "/9/9/0@7: there is no such event" in text
    assert main(["verify", "--process", "checkout", "--process", "order", *server]) == 2


def test_target_that_has_grown_is_clean(stage: Stage) -> None:
    """Older commands are where they belonged at the time, and a forwarded command counts once."""
    stage.react()
    stage.place(0, 5)
    stage.react()
    topics = Topics("payment", stage.prefix)
    count = readers.partition_count(stage.connection, topics.commands)
    with Admin(stage.connection) as admin:
        create_lineage_topic(admin, topics)
        request_repartitioning(stage.connection, topics, Grow(count, 4 * count))
        add_partitions(admin, topics, 4 * count)
    forward(stage, records(stage.connection, topics.commands, 0)[0])
    stage.place(5, 5)
    stage.react()
    found = verified(stage)
    assert (found.named, found.commands, found.others) == ([], 20, 0)


def forward(stage: Stage, command: Record) -> None:
    """Forward a command as the owner of partition 0 does."""
    end = b',"forwardedfrom":"0/%d"}' % command.offset
    producer = clients.producer(stage.connection)
    value = (command.value or b"")[:-1] + end
    producer.produce(stage.topic("commands"), value, command.key, 2, headers=list(HEADERS))
    assert producer.flush(10) == 0
