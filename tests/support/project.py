"""A user's project whose `cqrs` runs as separate processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

from cqrs_cli.client.uuid7 import uuid7
from cqrs_cli.jobs.replay.driver import plan_replay
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.consumer_pool import ConsumerPool
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.scans.replay.fold import Total
from cqrs_cli.state.shard import open_readonly
from cqrs_cli.status.aggregates import aggregate_statuses
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.repartitioning import replay_total
from tests.support.waiting import eventually


class Project:
    """A folder with the aggregates, whose `cqrs` runs as separate processes."""

    def __init__(self, folder: Path, connection: Connection, prefix: str) -> None:
        self.folder, self.connection, self.prefix = folder, connection, prefix
        self.environment = os.environ | {
            "CQRS_BOOTSTRAP_SERVER": connection.bootstrap_server,
            "CQRS_TOPIC_PREFIX": prefix,
        }

    def start(self, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        """Start `cqrs` in its own session, as a service manager does. `variables` are added to its environment."""
        return self._start(arguments, self.environment | variables, subprocess.PIPE)

    def start_logging(self, log: IO[bytes], *arguments: str) -> "subprocess.Popen[str]":
        """Start `cqrs` with its output in a file. A long run would fill a pipe that is not read."""
        return self._start(arguments, self.environment, log)

    def _start(
        self, arguments: Sequence[str], environment: Mapping[str, str], stderr: IO[bytes] | int
    ) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("cqrs")), *arguments],
            cwd=self.folder,
            env=environment,
            stdout=stderr,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )

    @contextmanager
    def running(self, *arguments: str, **variables: str) -> "Iterator[subprocess.Popen[str]]":
        """Start `cqrs` and kill it with all its processes if it is still running at the end of the block."""
        process = self.start(*arguments, **variables)
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=30)

    def cqrs(self, *arguments: str) -> str:
        """Run `cqrs`, which must succeed, and return its output."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
        return out

    def json(self, *arguments: str) -> dict[str, Any]:
        """Run `cqrs` and return the JSON document that it prints."""
        return dict(json.loads(self.cqrs(*arguments, "-o", "json")))

    def replay(self, name: str) -> Total:
        """Replay an aggregate in this process. `cqrs replay` would start Spark."""
        return replay_total(
            plan_replay(self.connection, Topics(name, self.prefix), "aggregates", self.folder)
        )

    def recover(self, bank: TopicHarness, *arguments: str) -> None:
        """Run until each shard has caught up with its logs and belongs to the new run, then stop the run.

        After a kill all commands may be decided, but not applied to the shards. Then `--once` would have nothing to do.
        """
        old_runs = {number: bank.owning_run(number) for number in range(bank.partitions)}
        with self.running("run", bank.topics.aggregate, *arguments) as run:
            eventually(lambda: run.poll() is not None or _has_caught_up(bank, old_runs), within=180)
            run.send_signal(signal.SIGTERM)
            _, output = run.communicate(timeout=60)
        assert run.returncode == 128 + signal.SIGTERM, output

    def harness(self, name: str = "bank_account", partitions: int = 2) -> TopicHarness:
        """Return the topics of an aggregate for use without `cqrs`. Missing topics are created."""
        return TopicHarness(self.connection, self.prefix, self.folder, name, partitions, root=self.folder)

    def send(self, lines: list[dict[str, Any]]) -> None:
        """Send commands from a file, as a user does."""
        file = self.folder / f"{uuid7()}.ndjson"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert self.json("send", "--file", str(file))["sent"] == len(lines)

    def send_malformed(self, count: int) -> None:
        """Send records that are not commands, as another program might."""
        producer = clients.producer(self.connection)
        for number in range(count):
            producer.produce(f"{self.prefix}bank_account.commands", b"?", f"m-{number}".encode(), number % 4)
        assert producer.flush(30) == 0

    def outcomes(self) -> list[dict[str, Any]]:
        """Return all outcomes."""
        lines = self.cqrs("tail", "bank_account", "outcomes", "-o", "json").splitlines()
        return [json.loads(line)["message"] for line in lines]


def _has_caught_up(bank: TopicHarness, old_runs: Mapping[int, str | None]) -> bool:
    for number in range(bank.partitions):
        offset, claim = bank.position_and_claim(number)
        if claim is None or claim.run == old_runs[number] or offset != bank.stable_end("commands", number):
            return False
        store = open_readonly(bank.shard_path(".cqrs/state", number))
        if store is None:
            return False
        decided = store.positions().commands
        store.close_without_sync()
        if decided != offset:
            return False
    return True


def new_project(folder: Path, connection: Connection, prefix: str) -> Project:
    """Return a project with all example aggregates and without topics."""
    (folder / "cqrs.toml").touch()
    shutil.copytree(ROOT / "aggregates", folder / "aggregates", ignore=shutil.ignore_patterns("__pycache__"))
    return Project(folder, connection, prefix)


def bank_command(
    name: str, subject: str, data: dict[str, Any] | None = None, **attributes: Any
) -> dict[str, Any]:
    return {
        "type": f"bank_account.{name}",
        "subject": subject,
        "id": uuid7(),
        "data": data or {},
        **attributes,
    }


LOCAL_MASTER = ("--master", "local[2]")


AGGREGATE_NAMES = ("bank_account", "counter")


def counter_increments(count: int) -> list[dict[str, object]]:
    return [{"type": "counter.Increment", "subject": f"n-{n}", "data": {}} for n in range(count)]


def await_repartitioned(project: Project, name: str, within: float = 60) -> None:
    """Wait until all partitions are split. `cqrs status`, again and again, would take the CPU from the owners."""
    topics, state_dir = Topics(name, project.prefix), project.folder / ".cqrs/state"

    def has_split() -> bool:
        statuses = aggregate_statuses(project.connection, topics, state_dir)
        return [status.repartitioning_stage for status in statuses] == [None] * 4

    eventually(has_split, within)


def repartitioning_stages(project: Project, name: str) -> list[str | None]:
    """Return the repartitioning stage of each partition; None for a partition without one."""
    (aggregates,) = project.json("status", name)["aggregates"].values()
    return [partition["growth"] for partition in aggregates["partitions"]]


def outcome_ids(project: Project, name: str, pool: ConsumerPool) -> list[str]:
    """Return the ids of all outcomes. An id names the command's partition and offset."""
    topic = Topics(name, project.prefix).outcomes
    with pool.acquire() as consumer:
        partitions = range(readers.partition_count_with(project.connection, consumer, topic))
    message_ids = []
    for partition, (start, end) in readers.bounds(project.connection, topic, partitions, pool=pool).items():
        for records in readers.read(project.connection, topic, partition, start, end, pool=pool):
            message_ids += [str((r.value or b"").split(b'"id":"')[1].split(b'"')[0]) for r in records]
    return message_ids


def await_decided(project: Project, count: int, names: Iterable[str] = AGGREGATE_NAMES) -> None:
    """Wait until `count` commands of each aggregate have exactly one outcome."""
    with closing(ConsumerPool(project.connection, "tests")) as pool:
        for name in names:
            eventually(
                lambda name=name: len(outcome_ids(project, name, pool)) >= count,  # type: ignore[misc]
                within=240,
                every=0.1,
            )
            ids = outcome_ids(project, name, pool)
            assert len(set(ids)) == len(ids) == count
