"""The customer order of the demo: it stays unpaid, and the process manager `checkout` cancels it after a timeout."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cqrs_cli import registry
from cqrs_cli.client import history
from cqrs_cli.client.aggregate_logs import find_ranges, read_records
from cqrs_cli.client.compose import compose
from cqrs_cli.client.envelope import Attributes
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.client.queries.message_trees import CommandNode, MessageTrees, message_trees
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

#: How often each pair of command type and outcome is expected. The cancellation usually has an earlier outcome, too
#: (`OPTIONAL_OUTCOMES`): it is deferred, and resubmitted when the timeout has passed.
EXPECTED_OUTCOMES = Counter(
    [
        ("order.Place", "accepted"),
        ("payment.Request", "accepted"),
        ("order.Cancel", "accepted"),
        ("payment.CallOff", "accepted"),
    ]
)

#: On a busy machine the timeout may pass before the first decision on the cancellation; then it is not deferred.
OPTIONAL_OUTCOMES = Counter([("order.Cancel", "deferred")])

#: Maximum clock skew in ms: other machines write the timestamps of records, so a later record may look older.
_MAX_CLOCK_SKEW = 3_600_000


class TracedOrder(NamedTuple):
    """An unpaid order, and all events and commands that followed from it."""

    order: str
    trees: MessageTrees

    @property
    def unexpected_results(self) -> list[str]:
        """One sentence for each unexpected outcome."""
        outcomes = Counter(
            (node.command.type, _status(node)) for node in _commands_in(self.trees) if node.command
        )
        differences = (EXPECTED_OUTCOMES - outcomes) + (outcomes - EXPECTED_OUTCOMES - OPTIONAL_OUTCOMES)
        return [
            f"{type} of {self.order} was {status} {outcomes[type, status]} times, "
            f"expected {EXPECTED_OUTCOMES[type, status]}"
            for type, status in differences
        ]


class OrderDemo:
    """Creates the topics of the order, places the order during a run, and collects the results."""

    def __init__(self, settings: "Settings", connection: Connection, demo_name: str) -> None:
        """`demo_name` distinguishes the order of this demo from orders of earlier demos in the same topics."""
        self.settings, self.connection = settings, connection
        self.aggregates = {
            name: registry.load(name, settings.aggregates, settings.root) for name in (ORDER, PAYMENT)
        }
        self.topics = {name: Topics(name, settings.topic_prefix) for name in self.aggregates}
        self.order = f"cleo-{demo_name}"

    def create_topics(self) -> None:
        """Create missing topics."""
        with Admin(self.connection) as admin:
            for topics in self.topics.values():
                # One order needs one partition; more partitions would take longer to claim.
                ensure_topics(admin, topics, TopicPlan(partitions=1))
            ensure_positions(admin, ProcessTopics(PROCESS, self.settings.topic_prefix))

    def process_plan(self, plan: Plan) -> ProcessPlan:
        """Return the process manager's plan. It gets the run and the timing of `plan`, the plan of the aggregates."""
        process = load_process(PROCESS, self.settings.root, self.settings.aggregates)
        process_plan = prepare_processes(self.settings, self.connection, {PROCESS: process})
        return replace(process_plan, run=plan.run, timing=plan.timing)

    def trace_order(self) -> TracedOrder:
        """Return the order with all events and commands that followed from it."""
        since = time.time_ns() // 1_000_000 - _MAX_CLOCK_SKEW
        trace = trace_messages(self.connection, self.topics, self.order, since, lambda _: None)
        return TracedOrder(self.order, message_trees(trace.messages))

    def place_order(self) -> None:
        """Place an order for Cleo. The process manager must have claimed its subscriptions before."""
        attributes = Attributes(correlation=self.order)
        command = compose(self.aggregates[ORDER], self.order, "Place", ["customer=cleo"], attributes)
        with CommandProducer(self.connection, self.settings.partitioner) as sender:
            sender.send(self.topics[ORDER].commands, self.order.encode(), command.value, lambda *_: None)
            sender.flush()

    def is_called_off(self) -> bool:
        """Return True if the payment was called off, which is the last step of the demo."""
        key, payment = self.order.encode(), self.aggregates[PAYMENT]
        ranges = find_ranges(self.connection, self.topics[PAYMENT], key, self.settings.partitioner)
        records = read_records(self.connection, key, ranges)
        state = history.fold_history(payment, records, history.parse_at(None)).state
        return bool(msgspec.to_builtins(state)["status"] == "called off")


def _commands_in(trees: MessageTrees) -> Iterator[CommandNode]:
    """Yield the commands of the trees, each before the commands that followed from it."""
    stack = list(reversed(trees.roots))
    while stack:
        node = stack.pop()
        yield node
        caused_commands = [*node.commands, *(command for event in node.events for command in event.commands)]
        stack += reversed(caused_commands)


def _status(node: CommandNode) -> str:
    """Return the status of the command's outcome; empty without an outcome."""
    return "" if node.outcome is None else str(msgspec.json.decode(node.outcome.data)["status"])
