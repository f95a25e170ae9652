"""The last act of the demo: an order is not paid, and the process manager `checkout` cancels it after a timeout."""

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

#: The expected commands of the act with their outcomes. The cancellation usually has a second outcome before (`WAITS`):
#: it is deferred, and resubmitted later.
TOLD = Counter(
    [
        ("order.Place", "accepted"),
        ("payment.Request", "accepted"),
        ("order.Cancel", "accepted"),
        ("payment.CallOff", "accepted"),
    ]
)

#: On a busy machine the timeout may pass before the first decision on the cancellation; then it is not deferred.
WAITS = Counter([("order.Cancel", "deferred")])

#: Maximum clock difference in ms: the order's records may seem older than the order, because clocks differ.
_SKEW = 3_600_000


class Timeout(NamedTuple):
    """An unpaid order, and all events and commands that followed from it."""

    order: str
    lineage: Lineage

    @property
    def surprises(self) -> list[str]:
        """One sentence for each unexpected outcome."""
        found = Counter(
            (node.command.type, _status(node)) for node in _commands(self.lineage) if node.command
        )
        differing = (TOLD - found) + (found - TOLD - WAITS)
        return [
            f"{type} of {self.order} ended {found[type, status]} times as {status}, not {TOLD[type, status]}"
            for type, status in differing
        ]


class CheckoutPlay:
    """One performance: creates the topics, places the order during a run with the process manager, collects the
    results.
    """

    def __init__(self, settings: "Settings", connection: Connection, name: str) -> None:
        """`name` distinguishes the order of this performance from other orders in the same topics."""
        self.settings, self.connection = settings, connection
        self.aggregates = {
            one: registry.load(one, settings.aggregates, settings.root) for one in (ORDER, PAYMENT)
        }
        self.topics = {one: Topics(one, settings.topic_prefix) for one in self.aggregates}
        self.order = f"cleo-{name}"

    def make_topics(self) -> None:
        """Create missing topics."""
        with Admin(self.connection) as admin:
            for topics in self.topics.values():
                # One order needs one partition; more partitions would take longer to claim.
                ensure_topics(admin, topics, TopicPlan(partitions=1))
            ensure_positions(admin, ProcessTopics(PROCESS, self.settings.topic_prefix))

    def hearing(self, plan: Plan) -> ProcessPlan:
        """Return the plan of the process manager within a run with this plan."""
        process = load_process(PROCESS, self.settings.root, self.settings.aggregates)
        hears = prepare_processes(self.settings, self.connection, {PROCESS: process})
        return replace(hears, run=plan.run, timing=plan.timing)

    def timeout(self) -> Timeout:
        """Return the order with everything that followed from it."""
        since = time.time_ns() // 1_000_000 - _SKEW
        traced = trace_messages(self.connection, self.topics, self.order, since, lambda _: None)
        return Timeout(self.order, lineage(traced.messages))

    def place(self) -> None:
        """Place an order for Cleo: its payment timeout starts if the process manager has claimed its subscriptions."""
        given = Attributes(correlation=self.order)
        placed = compose(self.aggregates[ORDER], self.order, "Place", ["customer=cleo"], given)
        with CommandProducer(self.connection, self.settings.partitioner) as sender:
            sender.send(self.topics[ORDER].commands, self.order.encode(), placed.value, lambda *_: None)
            sender.flush()

    def is_called_off(self) -> bool:
        """Return True if the payment was called off, which is the end of the act."""
        key, payment = self.order.encode(), self.aggregates[PAYMENT]
        places = history.find_ranges(self.connection, self.topics[PAYMENT], key, self.settings.partitioner)
        records = history.read_records(self.connection, key, places)
        state = history.fold_history(payment, self.order, records, history.parse_at(None)).state
        return bool(msgspec.to_builtins(state)["status"] == "called off")


def _commands(found: Lineage) -> Iterator[CommandNode]:
    """Yield the commands of the trees, each before the commands that followed from it."""
    left = list(reversed(found.roots))
    while left:
        node = left.pop()
        yield node
        caused = [*node.commands, *(one for event in node.events for one in event.commands)]
        left += reversed(caused)


def _status(node: CommandNode) -> str:
    return "" if node.outcome is None else str(msgspec.json.decode(node.outcome.data)["status"])
