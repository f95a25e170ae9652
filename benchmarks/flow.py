"""Deposits at a steady rate during repartitioning: when each was sent, and when and where it had its final outcome."""

import random
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import TopicPartition

from benchmarks.environment import Environment, command_bytes
from cqrs_cli.client.outcomes import OutcomeWaiter
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.readers import bounds
from cqrs_cli.kafka.topics.topics import Topics

#: Seconds that a client pauses after each outcome.
_PAUSE = 0.02


def _deposit(number: int, subject: str) -> bytes:
    return command_bytes("Deposit", subject, '{"amount":5}', f"flow-{number}")


class Final(NamedTuple):
    """The time and partition of a command's final outcome, as it was read, and the resulting version of its account."""

    time: float  # seconds, as `time.perf_counter` counts
    partition: int
    version: int


class Flow:
    """A sender, which is informed of each repartitioning, and a reader, each in a thread. Commands are numbered in the
    order of sending.
    """

    def __init__(
        self, environment: Environment, topics: Topics, rate: int, accounts: int, partitions: int
    ) -> None:
        self._environment, self._topics, self._rate, self._accounts = environment, topics, rate, accounts
        self.accounts = array("l")  # of each command
        self.sent, self.final_outcomes = array("d"), dict[int, Final]()
        self.repeated_count = 0
        self._sending_stopped, self._reading_stopped = threading.Event(), threading.Event()
        self._sender = CommandProducer(environment.connection, "murmur2", bulk=True, reports=False)
        self._reader, self._read_from = clients.consumer(environment.connection), 0
        self._requested_count, self._count_is_read = 0, threading.Event()
        self._read_more(partitions)
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._send, self._read)]
        for thread in self._threads:
            thread.start()

    def read_more(self, count: int) -> None:
        """Read the outcomes of all partitions after a repartitioning; returns when the reader has them."""
        self._requested_count = count
        self._count_is_read.wait()
        self._count_is_read.clear()

    def refresh_partition_count(self) -> None:
        """Make the sender refresh its metadata, and use the new number of partitions."""
        self._sender.forget_partition_count(self._topics.commands)

    def finish(self, timeout: float) -> None:
        """Stop sending, and wait for the remaining outcomes."""
        self._sending_stopped.set()
        self._threads[0].join()
        deadline = time.monotonic() + timeout
        while len(self.final_outcomes) < len(self.sent) and time.monotonic() < deadline:
            time.sleep(0.1)
        self._reading_stopped.set()
        self._threads[1].join()
        self._reader.close()

    def repeat(self, topics: Topics) -> None:
        """Send all commands to other topics, as fast as possible."""
        with CommandProducer(self._environment.connection, "murmur2", bulk=True, reports=False) as sender:
            for number, account in enumerate(self.accounts):
                subject = f"acc-{account}"
                sender.send(topics.commands, subject.encode(), _deposit(number, subject))
            sender.flush()

    def _send(self) -> None:
        generator, start = random.Random(1), time.perf_counter()
        with self._sender as sender:
            while not self._sending_stopped.is_set():
                due = int((time.perf_counter() - start) * self._rate)
                for number in range(len(self.sent), due):
                    account = generator.randrange(self._accounts)
                    subject = f"acc-{account}"
                    self.accounts.append(account)
                    self.sent.append(time.perf_counter())
                    sender.send(self._topics.commands, subject.encode(), _deposit(number, subject))
                sender.poll()
                time.sleep(0.002)
            sender.flush()

    def _read(self) -> None:
        while not self._reading_stopped.is_set():
            if self._requested_count:
                self._read_more(self._requested_count)
                self._requested_count = 0
                self._count_is_read.set()
            for record in self._reader.consume(10_000, 0.05):
                if record.error() is None:
                    self._take(record.value() or b"", record.partition() or 0, time.perf_counter())

    def _take(self, value: bytes, partition: int, now: float) -> None:
        outcome = read_outcome(value)
        kind, _, number = (outcome.causationid or "").partition("-")
        if kind == "flow" and outcome.data.reason != Reason.MOVED.name:
            self.repeated_count += int(number) in self.final_outcomes
            self.final_outcomes.setdefault(int(number), Final(now, partition, outcome.data.version))

    def _read_more(self, count: int) -> None:
        topic, new_partitions = self._topics.outcomes, range(self._read_from, count)
        clients.fetch_metadata(self._environment.connection, self._reader, topic)
        ends = bounds(self._environment.connection, topic, new_partitions)
        start = (
            {partition: end for partition, (_, end) in ends.items()}
            if not self._read_from
            else dict.fromkeys(new_partitions, 0)
        )
        self._reader.incremental_assign(
            [TopicPartition(topic, partition, start[partition]) for partition in new_partitions]
        )
        self._read_from = count

    def overtaken_count(self) -> int:
        """Return the number of commands that were decided after a later command to the same account."""
        last_versions, counts = Counter[int](), 0
        for number, account in enumerate(self.accounts):
            if number in self.final_outcomes:
                version = self.final_outcomes[number].version
                counts += version < last_versions[account]
                last_versions[account] = max(last_versions[account], version)
        return counts


class WaitingClient(threading.Thread):
    """A client that waits for each outcome before it sends the next command, to an account of its own."""

    def __init__(
        self, environment: Environment, topics: Topics, number: int, sender: Callable[[], CommandProducer]
    ) -> None:
        super().__init__(daemon=True)
        self._environment, self._topics, self._subject, self._sender = (
            environment,
            topics,
            f"waiting-{number}",
            sender,
        )
        self.stopping = threading.Event()
        self.sent = self.wrong_count = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with self._sender() as sender, OutcomeWaiter(self._environment.connection, sender) as waiter:
                while not self.stopping.wait(_PAUSE):
                    self._send_and_wait(waiter)
        except Exception as error:
            self.error = error

    def _send_and_wait(self, waiter: OutcomeWaiter) -> None:
        kind, data = ("Deposit", '{"amount":5}') if self.sent else ("Open", '{"owner":"ann"}')
        value = command_bytes(kind, self._subject, data, id := f"{self._subject}-{self.sent}")
        waiter.send(self._topics, self._subject.encode(), value, id)
        outcomes = [outcome for batch in waiter.remaining_outcomes(60) for outcome in batch]
        self.sent += 1
        self.wrong_count += [outcome.envelope.data.version for outcome in outcomes] != [self.sent]
