"""Runs a process manager on topics of orders and payments: in the test's process, in a thread, or in a process that a
failpoint kills.
"""

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
from cqrs_cli.deciding.plan import Plan
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
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.topics.topics import Kind, TopicPlan, Topics
from cqrs_cli.runs.task import own_partitions
from cqrs_cli.settings.settings import load_settings
from tests.following.projections.projector_harness import event_record
from tests.following.projections.topics import write_events
from tests.support import ROOT
from tests.support.harness import SHORT_TIMEOUTS
from tests.support.owners import PROCESSES
from tests.support.topic_loss import delete_topics
from tests.support.waiting import eventually


class ProcessHarness:
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
        self.create_topics()

    def create_topics(self) -> None:
        """Create the topics that are missing."""
        with Admin(self.connection) as admin:
            for name in ("order", "payment"):
                ensure_topics(admin, Topics(name, self.prefix), TopicPlan(partitions=self.partitions))
            ensure_positions(admin, self.topics)

    def plan(self, once: bool = True, **options: Any) -> ProcessPlan:
        """Return the plan of a new run."""
        loaded = {self.name: load_process(self.name, self.root, "aggregates")}
        plan = prepare_processes(self.settings, self.connection, loaded, once=once, **options)
        return replace(plan, timing=SHORT_TIMEOUTS)

    def write_events(self, log: Iterable[Record], partition: int = 0) -> None:
        """Write events as an owner does."""
        write_events(self.connection, self.events, partition, log, seed=partition)

    def place_orders(self, first: int, count: int, partition: int = 0) -> None:
        """Place orders."""
        self.write_events(
            [order_placed(number, partition) for number in range(first, first + count)], partition
        )

    def run_once(self, **options: Any) -> list[ProcessResult]:
        """Run the process manager with `--once`, which must succeed, and return the results."""
        results = run_in_this_process(self.plan(**options))
        assert error_texts(results) == []
        return results

    def run_once_error(self, **options: Any) -> CqrsError:
        """Run the process manager with `--once`, which must fail, and return the error."""
        return next(result.error for result in run_in_this_process(self.plan(**options)) if result.error)

    def sent_commands(self, aggregate: str = "payment") -> list[dict[str, Any]]:
        """Return the committed commands of an aggregate, by partition."""
        topic = Topics(aggregate, self.prefix).commands
        return [
            {**msgspec.json.decode(record.value or b""), "partition": number, "key": record.key}
            for number in range(self.partitions)
            for record in read_records(self.connection, topic, number)
        ]

    def payment_requests(self) -> Counter[str]:
        """Count the payment requests by order."""
        return Counter(
            command["subject"] for command in self.sent_commands() if command["type"] == "payment.Request"
        )

    def position(self, partition: int = 0) -> ProcessPosition | None:
        return read_positions(self.connection, self.topics).get(f"{self.events}/{partition}".encode())

    def delete_topics(self, *names: str) -> None:
        """Delete topics, and wait until the broker has deleted them."""
        delete_topics(self.connection, *names)

    def delete_events_before(self, offset: int) -> None:
        """Delete the events of partition 0 before `offset`, as retention does."""
        admin = self._admin()
        for future in admin.delete_records([TopicPartition(self.events, 0, offset)]).values():
            future.result(10)

    def delete_group(self) -> None:
        """Delete the group's offsets, as a broker does for a group that was unused for a week."""
        admin = self._admin()
        for future in admin.delete_consumer_groups([self.topics.group]).values():
            future.result(10)

    def reset_group_offset(self, offset: int) -> None:
        """Commit another offset, as `kafka-consumer-groups --reset-offsets` does."""
        offsets = ConsumerGroupTopicPartitions(self.topics.group, [TopicPartition(self.events, 0, offset)])
        admin = self._admin()
        for future in admin.alter_consumer_group_offsets([offsets]).values():
            future.result(10)

    def _admin(self) -> AdminClient:
        return AdminClient(self.connection.librdkafka())

    def topic(self, kind: Kind, aggregate: str = "payment") -> str:
        return Topics(aggregate, self.prefix).name(kind)


class ThreadedRun:
    """A run of the process manager in a thread, until the test retires it."""

    def __init__(self, plan: ProcessPlan) -> None:
        self.plan = plan
        self.results: list[ProcessResult] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.results = run_in_this_process(self.plan)

    def wait_for_error(self) -> CqrsError | None:
        """Wait for the end of the run, and return its error."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        return next((result.error for result in self.results if result.error), None)

    def retire(self) -> None:
        """Retire the run, as the driver does, and wait for its end."""

        def has_ended() -> bool:
            if self._thread.is_alive():
                retire_processes(self.plan)
            return not self._thread.is_alive()

        eventually(has_ended)


class ForkedRun:
    """A run of the process manager in a process of its own. `fault` is a failpoint, such as `commit.sent:4:kill`."""

    def __init__(self, plan: ProcessPlan, fault: str = "", batch: int = 7) -> None:
        plan = replace(plan, timing=replace(plan.timing, batch_limit=batch))
        self._receiver, sender = PROCESSES.Pipe(duplex=False)
        self._process = PROCESSES.Process(target=_run_and_exit, args=(plan, fault, sender), daemon=True)
        self._process.start()
        sender.close()

    def was_killed(self) -> bool:
        """Wait for the end of the process; return True if SIGKILL ended it."""
        self._process.join(60)
        return self._process.exitcode == -signal.SIGKILL

    def wait_for_exit(self) -> tuple[int | None, CqrsError | None]:
        """Wait for the end of the process; return its exit code (negative for a signal), and its error."""
        self._process.join(60)
        error = self._receiver.recv() if self._process.exitcode in (0, 1) else None
        return self._process.exitcode, error

    def is_paused(self) -> bool:
        """Return True while a SIGSTOP pauses the process."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def resume(self) -> int | None:
        """Send SIGCONT, wait for the end of the process, and return its exit code: 6 if another run took over."""
        os.kill(self._process.pid or 0, signal.SIGCONT)
        self._process.join(60)
        return self._process.exitcode


def _run_and_exit(plan: ProcessPlan, fault: str, pipe: Pipe) -> None:
    os.environ[failpoints.VARIABLE] = fault
    failures = [result.error for result in run_in_this_process(plan) if result.error]
    pipe.send(failures[0] if failures else None)
    os._exit(failures[0].exit_code if failures else 0)


def run_in_this_process(plan: ProcessPlan, attempt: int = 0) -> list[ProcessResult]:
    """Own every partition of the plan in this process, as one Spark task does."""
    results = own_partitions(process_only_plan(plan), plan.subscriptions, attempt, plan)
    return [result for result in results if isinstance(result, ProcessResult)]


def order_placed(number: int, partition: int = 0, event: Event | None = None) -> Record:
    """Return the first event of an order."""
    return event_record(number, f"o-{partition}-{number}", 1, event or Placed("ann"), partition)


def read_records(connection: Connection, topic: str, partition: int) -> list[Record]:
    """Return all committed records of a partition."""
    start, end = readers.bounds(connection, topic, [partition], "read_uncommitted")[partition]
    return [record for batch in readers.read(connection, topic, partition, start, end) for record in batch]


def error_texts(results: Iterable[ProcessResult]) -> list[str]:
    return [str(result.error) for result in results if result.error is not None]


def expected_payments(first: int, count: int, partition: int = 0) -> Counter[str]:
    """Return the expected payment requests, each once."""
    return Counter({f"o-{partition}-{number}": 1 for number in range(first, first + count)})


def process_only_plan(processes: ProcessPlan) -> Plan:
    """Return the plan of a run that has process managers only."""
    return Plan(
        processes.connection,
        {},
        {},
        processes.package,
        processes.root,
        DecisionSettings(processes.partitioner, 0, 0),
        processes.state_dir,
        processes.run_epoch,
        processes.run,
        processes.submission,
        end_offsets=None if processes.end_offsets is None else {},
        timing=processes.timing,
        brokers=processes.brokers,
    )
