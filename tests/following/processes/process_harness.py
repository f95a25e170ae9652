"""The topics of orders and payments with a process manager, which runs in the test or in a process that dies."""

import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from aggregates.order import Placed
from cqrs_cli import failpoints
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import CqrsError
from cqrs_cli.following.processes.load import load_process
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessResult
from cqrs_cli.following.processes.position import ProcessPosition
from cqrs_cli.following.processes.positions import read_positions
from cqrs_cli.following.processes.prepare import prepare_processes
from cqrs_cli.following.processes.retire import retire_processes
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.positions import ensure_positions
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.topics.topics import Kind, TopicPlan, Topics
from cqrs_cli.runs.task import own_partitions, without_aggregates
from cqrs_cli.settings.settings import load_settings
from tests.following.projections.projector_harness import record
from tests.following.projections.topics import write_events
from tests.support import ROOT
from tests.support.harness import IMPATIENT
from tests.support.topic_loss import delete_topics
from tests.support.waiting import eventually

_PROCESSES = multiprocessing.get_context("forkserver")


class Stage:
    """Orders and payments on topics with their own prefix, and one process manager that subscribes to orders."""

    def __init__(
        self,
        connection: Connection,
        prefix: str,
        root: Path = ROOT,
        name: str = "checkout",
        partitions: int = 1,
        state_dir: Path = Path(".cqrs/state"),
    ) -> None:
        self.connection, self.prefix, self.root, self.name = connection, prefix, root, name
        self.partitions = partitions
        self.topics = ProcessTopics(name, prefix)
        self.events = Topics("order", prefix).events
        self.settings = load_settings({"topic_prefix": prefix, "state_dir": state_dir}, root)
        self.make()

    def make(self) -> None:
        """Create the topics that are missing."""
        with Admin(self.connection) as admin:
            for name in ("order", "payment"):
                ensure_topics(admin, Topics(name, self.prefix), TopicPlan(partitions=self.partitions))
            ensure_positions(admin, self.topics)

    def plan(self, once: bool = True, **options: Any) -> ProcessPlan:
        """Return the plan of a new run."""
        loaded = {self.name: load_process(self.name, self.root, "aggregates")}
        made = prepare_processes(self.settings, self.connection, loaded, once=once, **options)
        return replace(made, timing=IMPATIENT)

    def write(self, log: Iterable[Record], partition: int = 0) -> None:
        """Write events as an owner does."""
        write_events(self.connection, self.events, partition, log, seed=partition)

    def place(self, first: int, count: int, partition: int = 0) -> None:
        """Place orders."""
        self.write([placed(number, partition) for number in range(first, first + count)], partition)

    def react(self, **options: Any) -> list[ProcessResult]:
        """Run with `--once`, which must succeed, and return the results."""
        results = run_in_this_process(self.plan(**options))
        assert errors(results) == []
        return results

    def error(self, **options: Any) -> CqrsError:
        """Run with `--once`, which must fail, and return the error."""
        return next(result.error for result in run_in_this_process(self.plan(**options)) if result.error)

    def commands(self, aggregate: str = "payment") -> list[dict[str, Any]]:
        """Return the committed commands of an aggregate, by partition."""
        topic = Topics(aggregate, self.prefix).commands
        return [
            {**msgspec.json.decode(one.value or b""), "partition": number, "key": one.key}
            for number in range(self.partitions)
            for one in records(self.connection, topic, number)
        ]

    def asked(self) -> Counter[str]:
        """Count the payment requests by order."""
        return Counter(one["subject"] for one in self.commands() if one["type"] == "payment.Request")

    def position(self, partition: int = 0) -> ProcessPosition | None:
        return read_positions(self.connection, self.topics).get(f"{self.events}/{partition}".encode())

    def delete(self, *names: str) -> None:
        """Delete topics, and wait until the broker has deleted them."""
        delete_topics(self.connection, *names)

    def shorten(self, below: int) -> None:
        """Delete events of partition 0, as retention does."""
        admin = self._admin()
        for done in admin.delete_records([TopicPartition(self.events, 0, below)]).values():
            done.result(10)

    def forget_group(self) -> None:
        """Delete the group's offsets, as a broker does for a group that was unused for a week."""
        admin = self._admin()
        for done in admin.delete_consumer_groups([self.topics.group]).values():
            done.result(10)

    def move_group(self, offset: int) -> None:
        """Commit another offset, as `kafka-consumer-groups --reset-offsets` does."""
        moved = ConsumerGroupTopicPartitions(self.topics.group, [TopicPartition(self.events, 0, offset)])
        admin = self._admin()
        for done in admin.alter_consumer_group_offsets([moved]).values():
            done.result(10)

    def _admin(self) -> AdminClient:
        return AdminClient(self.connection.librdkafka())

    def topic(self, kind: Kind, aggregate: str = "payment") -> str:
        return Topics(aggregate, self.prefix).name(kind)


class RunningProcess:
    """A run in a thread, until it is retired."""

    def __init__(self, plan: ProcessPlan) -> None:
        self.plan = plan
        self.results: list[ProcessResult] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.results = run_in_this_process(self.plan)

    def error(self) -> CqrsError | None:
        """Wait for the end, and return the error."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        return next((result.error for result in self.results if result.error), None)

    def end(self) -> None:
        """Retire the run, as the driver does."""

        def ended() -> bool:
            if self._thread.is_alive():
                retire_processes(self.plan)
            return not self._thread.is_alive()

        eventually(ended)


class DyingProcess:
    """A run in a process of its own. `fault` is a failpoint."""

    def __init__(self, plan: ProcessPlan, fault: str = "", batch: int = 7) -> None:
        plan = replace(plan, timing=replace(plan.timing, batch_limit=batch))
        self._ours, theirs = _PROCESSES.Pipe(duplex=False)
        self._process = _PROCESSES.Process(target=_serve, args=(plan, fault, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def killed(self) -> bool:
        """Wait for the end. True if SIGKILL ended it."""
        self._process.join(60)
        return self._process.exitcode == -signal.SIGKILL

    def ended(self) -> tuple[int | None, CqrsError | None]:
        """Wait for the end. Return the exit code (negative for a signal), and the error if it did not die."""
        self._process.join(60)
        error = self._ours.recv() if self._process.exitcode in (0, 1) else None
        return self._process.exitcode, error

    def stopped(self) -> bool:
        """True while a SIGSTOP pauses it."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def go_on(self) -> int | None:
        """Send SIGCONT, wait for the end, and return the exit code: 6 if another run took over."""
        os.kill(self._process.pid or 0, signal.SIGCONT)
        self._process.join(60)
        return self._process.exitcode


def _serve(plan: ProcessPlan, fault: str, pipe: Pipe) -> None:
    os.environ[failpoints.VARIABLE] = fault
    failures = [result.error for result in run_in_this_process(plan) if result.error]
    pipe.send(failures[0] if failures else None)
    os._exit(failures[0].exit_code if failures else 0)


def run_in_this_process(plan: ProcessPlan, attempt: int = 0) -> list[ProcessResult]:
    """Own every partition of the plan in this process, as one Spark task does."""
    endings = own_partitions(without_aggregates(plan), plan.subscriptions, attempt, plan)
    return [one for one in endings if isinstance(one, ProcessResult)]


def placed(number: int, partition: int = 0, event: Event | None = None) -> Record:
    """Return the first event of an order."""
    return record(number, f"o-{partition}-{number}", 1, event or Placed("ann"), partition)


def records(connection: Connection, topic: str, partition: int) -> list[Record]:
    """Return all committed records of a partition."""
    start, end = readers.bounds(connection, topic, [partition], "read_uncommitted")[partition]
    return [one for batch in readers.read(connection, topic, partition, start, end) for one in batch]


def errors(results: Iterable[ProcessResult]) -> list[str]:
    return [str(result.error) for result in results if result.error is not None]


def orders(first: int, count: int, partition: int = 0) -> Counter[str]:
    """Return the expected payment requests, each once."""
    return Counter({f"o-{partition}-{number}": 1 for number in range(first, first + count)})
