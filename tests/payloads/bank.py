"""A bank on a real broker, with a payload store."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from cqrs_cli.client.aggregate_logs import find_ranges, read_records
from cqrs_cli.client.compose import compose
from cqrs_cli.client.envelope import ReadyCommand
from cqrs_cli.client.history import AggregateHistory, fold_history
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.client.send import send_one
from cqrs_cli.core.messages.payload_reference import PayloadReference, find_reference
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.kafka import readers
from tests.payloads.stores import FolderStore
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_in_thread

#: An owner's name that is too large for the bank's records.
LARGE_NAME = "Ada " * 500


class Bank:
    """A bank with a payload store."""

    def __init__(self, harness: TopicHarness, store: FolderStore) -> None:
        harness.connection = replace(harness.connection, payloads=store.address)
        self.harness, self.store, self.folder = harness, store, harness.topics.events.rpartition(".")[0]

    def compose(self, subject: str, command: str, *fields: str) -> ReadyCommand:
        return compose(self.harness.aggregate, subject, command, fields)

    def send(self, subject: str, command: str, *fields: str) -> None:
        with CommandProducer(self.harness.connection, "murmur2") as producer:
            send_one(producer, self.harness.topics, self.compose(subject, command, *fields))

    def send_inline(self, subject: str, command: str, *fields: str) -> None:
        """Send a command as a program without a store does."""
        with CommandProducer(replace(self.harness.connection, payloads=None), "murmur2") as producer:
            send_one(producer, self.harness.topics, self.compose(subject, command, *fields))

    def events(self) -> list[Record]:
        """Return the events as they are in the log."""
        topic, connection = self.harness.topics.events, self.harness.connection
        start, end = readers.bounds(connection, topic, [0])[0]
        return [record for batch in readers.read(connection, topic, 0, start, end) for record in batch]

    def decide(self, machine: str = "state") -> list[str]:
        """Run an owner, and return the status of each outcome so far, or the reason of a failed outcome."""
        run_plan(self.harness.plan(machine=machine))
        outcomes = [envelope.data for envelope in self.harness.outcomes()]
        return [str(outcome.reason if outcome.status == "failed" else outcome.status) for outcome in outcomes]


def open_large_account(bank: Bank, subject: str) -> PayloadReference:
    """Open an account whose event is large, and whose command is inline.

    Return the reference to the event's payload.
    """
    bank.send_inline(subject, "Open", f"owner={subject}{LARGE_NAME}")
    assert bank.decide()[-1] == "accepted"
    reference = find_reference(bank.events()[-1].value)
    assert reference is not None
    return reference


def account_history(bank: Bank, subject: str) -> AggregateHistory:
    harness, key = bank.harness, subject.encode()
    ranges = find_ranges(harness.connection, harness.topics, key, "murmur2")
    records = read_records(harness.connection, key, ranges)
    return fold_history(harness.aggregate, records, lambda history: True)


@contextmanager
def running_supervisor(bank: Bank, machine: str) -> Iterator[DecidingSupervisor]:
    """Run an owner with accessible notes while the block lasts."""
    plan, stopping = bank.harness.plan(machine=machine), threading.Event()
    supervisor = DecidingSupervisor(plan, plan.partitions()[0], bank.harness.aggregate, 0, stopping)
    with running_in_thread(supervisor.run, stopping):
        yield supervisor
