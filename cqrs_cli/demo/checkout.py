"""The demo's last act: nobody pays for an order, and the process `checkout` has it cancelled when its time is up."""

import time
from collections import Counter
from collections.abc import Iterator
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
from cqrs_cli.deciding.plan import Plan
from cqrs_cli.demo.project import ORDER, PAYMENT, PROCESS
from cqrs_cli.following.processes.load import load_process
from cqrs_cli.following.processes.plan import ProcessPlan
from cqrs_cli.following.processes.prepare import prepare_processes
from cqrs_cli.kafka.admin.positions import ensure_positions
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings

#: The commands of the act with their outcomes; the cancellation has two: it waits, and is said again.
TOLD = Counter(
    [
        ("order.Place", "accepted"),
        ("payment.Request", "accepted"),
        ("order.Cancel", "accepted"),
        ("payment.CallOff", "accepted"),
    ]
)

#: On a machine so busy that the time is up before the cancellation is decided for the first time, it need not wait.
WAITS = Counter([("order.Cancel", "deferred")])

#: The most by which records of the order may seem older than it, in ms: the brokers' clocks may differ from ours.
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
        differing = (TOLD - found) + (found - TOLD - WAITS)
        return [
            f"{type} of {self.order} ended {found[type, status]} times as {status}, not {TOLD[type, status]}"
            for type, status in differing
        ]


class CheckoutPlay:
    """One performance: make the topics, place the order in a run that hears the process, and look at all of it."""

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

    def hearing(self, plan: Plan) -> ProcessPlan:
        """The process, to be heard within a run of this plan."""
        process = load_process(PROCESS, self.settings.root, self.settings.aggregates)
        hears = prepare_processes(self.settings, self.connection, {PROCESS: process})
        return replace(hears, run=plan.run, timing=plan.timing)

    def timeout(self) -> Timeout:
        """All that the order led to."""
        since = time.time_ns() // 1_000_000 - _SKEW
        traced = trace_messages(self.connection, self.topics, self.order, since, lambda _: None)
        return Timeout(self.order, lineage(traced.messages))

    def place(self) -> None:
        """Cleo places an order: its time begins, if the process listens by now."""
        given = Attributes(correlation=self.order)
        placed = compose(self.aggregates[ORDER], self.order, "Place", ["customer=cleo"], given)
        with CommandProducer(self.connection, self.settings.partitioner) as sender:
            sender.send(self.topics[ORDER].commands, self.order.encode(), placed.value, lambda *_: None)
            sender.flush()

    def is_called_off(self) -> bool:
        """True if the payment was called off, which is the end of the act."""
        key, payment = self.order.encode(), self.aggregates[PAYMENT]
        places = history.find_ranges(self.connection, self.topics[PAYMENT], key, self.settings.partitioner)
        records = history.read_records(self.connection, key, places)
        state = history.fold_history(payment, self.order, records, history.parse_at(None)).state
        return bool(msgspec.to_builtins(state)["status"] == "called off")


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
