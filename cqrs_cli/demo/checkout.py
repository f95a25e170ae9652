"""The demo's last act: nobody pays for an order, and the process `checkout` has it cancelled when its time is up."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cqrs_cli import registry
from cqrs_cli.client import history
from cqrs_cli.client.compose import compose
from cqrs_cli.client.envelope import Attributes
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.client.queries.lineage import CommandNode, Lineage, lineage
from cqrs_cli.client.queries.trace import trace_messages
from cqrs_cli.deciding.prepare import prepare
from cqrs_cli.demo.project import ORDER, PAYMENT, PROCESS
from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.processes.load import load_process
from cqrs_cli.following.processes.prepare import prepare_processes
from cqrs_cli.jobs.engine.slots import slots
from cqrs_cli.jobs.run import run_owners
from cqrs_cli.kafka.admin.positions import ensure_positions
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from cqrs_cli.runs.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark import SparkContext

    from cqrs_cli.settings.settings import Settings

#: The commands of the act with their outcomes; the cancellation has two: it waits, and is said again.
TOLD = Counter(
    [
        ("order.Place", "accepted"),
        ("payment.Request", "accepted"),
        ("order.Cancel", "deferred"),
        ("order.Cancel", "accepted"),
        ("payment.CallOff", "accepted"),
    ]
)

#: Seconds that the act may take, however busy the machine.
_LONGEST = 120.0

#: What belongs to the order is not older than this, in ms: the brokers' clocks may differ from ours.
_SKEW = 3_600_000


class Timeout(NamedTuple):
    """An order that nobody paid: all that it led to."""

    order: str
    lineage: Lineage

    @property
    def surprises(self) -> list[str]:
        """One sentence for each outcome that differs from what is told."""
        found = Counter(
            (node.command.type, _status(node)) for node in _commands(self.lineage) if node.command
        )
        differing = (TOLD - found) + (found - TOLD)
        return [
            f"{type} of {self.order} ended {found[type, status]} times as {status}, not {TOLD[type, status]}"
            for type, status in differing
        ]


class CheckoutPlay:
    """One performance: make the topics, then run."""

    def __init__(self, settings: "Settings", connection: Connection, name: str) -> None:
        """`name` makes this performance's order differ from others in the same topics."""
        self.settings, self.connection = settings, connection
        self.aggregates = {
            one: registry.load(one, settings.aggregates, settings.root) for one in (ORDER, PAYMENT)
        }
        self.topics = {one: Topics(one, settings.topic_prefix) for one in self.aggregates}
        self.order = f"cleo-{name}"

    def make_topics(self) -> None:
        """Make the topics that are missing."""
        with Admin(self.connection) as admin:
            for topics in self.topics.values():
                ensure_topics(
                    admin, topics, TopicPlan(partitions=1)
                )  # one order: more would only take longer to claim
            ensure_positions(admin, ProcessTopics(PROCESS, self.settings.topic_prefix))

    def run(self, context: "SparkContext") -> Timeout:
        """Decide and react, as `cqrs run` does, until the payment is called off; then look at all of it."""
        plan = prepare(self.settings, self.connection, self.aggregates)
        process = load_process(PROCESS, self.settings.root, self.settings.aggregates)
        hears = prepare_processes(self.settings, self.connection, {PROCESS: process})
        hears = replace(hears, run=plan.run, timing=plan.timing)
        tasks = min(len(plan.partitions()) + len(hears.subscriptions), slots(context))
        deadline, placed = time.monotonic() + _LONGEST, False

        def watch(snapshot: Snapshot) -> None:
            nonlocal placed
            if not placed and not snapshot.waiting_places():
                self._place()
                placed = True
            if snapshot.total("commands") >= TOLD.total() and self._is_called_off():
                raise _Over
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"order {self.order} was not cancelled within {_LONGEST:g} s", "cqrs doctor"
                )

        with suppress(_Over):
            run_owners(context, plan, tasks, watch, lambda _: None, hears)
        since = time.time_ns() // 1_000_000 - _SKEW
        traced = trace_messages(self.connection, self.topics, self.order, since, lambda _: None)
        return Timeout(self.order, lineage(traced.messages))

    def _place(self) -> None:
        """Cleo places an order; the process listens by now, so the time of the order begins."""
        given = Attributes(correlation=self.order)
        placed = compose(self.aggregates[ORDER], self.order, "Place", ["customer=cleo"], given)
        with CommandProducer(self.connection, self.settings.partitioner) as sender:
            sender.send(self.topics[ORDER].commands, self.order.encode(), placed.value, lambda *_: None)
            sender.flush()

    def _is_called_off(self) -> bool:
        key, payment = self.order.encode(), self.aggregates[PAYMENT]
        places = history.find_ranges(self.connection, self.topics[PAYMENT], key, self.settings.partitioner)
        records = history.read_records(self.connection, key, places)
        state = history.fold_history(payment, self.order, records, history.parse_at(None)).state
        return bool(msgspec.to_builtins(state)["status"] == "called off")


class _Over(Exception):
    """The act has come to its end."""


def _commands(found: Lineage) -> Iterator[CommandNode]:
    """The commands of trees, each before those that it led to."""
    left = list(reversed(found.roots))
    while left:
        node = left.pop()
        yield node
        caused = [*node.commands, *(one for event in node.events for one in event.commands)]
        left += reversed(caused)


def _status(node: CommandNode) -> str:
    return "" if node.outcome is None else str(msgspec.json.decode(node.outcome.data)["status"])
