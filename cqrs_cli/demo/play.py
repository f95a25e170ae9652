"""Runs the demo: sends the commands of a story, decides them together with an order, and replays the events."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli import registry
from cqrs_cli.client import history
from cqrs_cli.client.aggregate_logs import find_ranges, read_records
from cqrs_cli.client.history import AggregateHistory
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.core import digest
from cqrs_cli.core.messages.outcome import Verdict, read_outcome
from cqrs_cli.deciding.prepare import prepare
from cqrs_cli.demo.checkout import EXPECTED_OUTCOMES, OrderDemo, TracedOrder
from cqrs_cli.demo.project import AGGREGATE
from cqrs_cli.demo.read_model import ReadModel
from cqrs_cli.demo.story import Step, account_ids, story_steps
from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.jobs.engine.slots import wait_for_slots
from cqrs_cli.jobs.replay import driver
from cqrs_cli.jobs.run import run_owners
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.readers import bounds, partition_count, read
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from cqrs_cli.runs.snapshot import Snapshot
from cqrs_cli.status.aggregates import aggregate_statuses
from cqrs_cli.status.shards import with_shards

if TYPE_CHECKING:
    from pyspark import SparkContext

    from cqrs_cli.settings.settings import Settings

#: Timeout in seconds for the run, even on a busy machine.
_RUN_TIMEOUT = 120.0

#: Seconds between two progress polls of the driver, and two claim checks of owners; short, because a user waits.
_POLL_INTERVAL = 0.1

_CommandLocation = tuple[int, int]  # partition and offset


class StepOutcome(NamedTuple):
    """A step of the story and its outcome."""

    step: Step
    verdict: Verdict

    @property
    def result(self) -> str:
        """The code, reason or status of the outcome, as in `Step.expected_result`."""
        return self.verdict.code or self.verdict.reason or self.verdict.status


class StoryResults(NamedTuple):
    """The decided story."""

    decided: Snapshot  # the run's snapshot when the story was decided
    outcomes: list[StepOutcome]
    accounts: dict[str, AggregateHistory]  # account id → account


class Tally(NamedTuple):
    """The number and the digest of a set of aggregates. Equal sets have equal tallies."""

    aggregates: int  # number of aggregates
    digest: str  # digest of the ids, versions and states


class DemoResults(NamedTuple):
    """The results of one demo."""

    decided: Snapshot
    outcomes: list[StepOutcome]
    accounts: dict[str, AggregateHistory]
    shard_tally: Tally
    replay_tally: Tally
    timeout: TracedOrder
    orders: ReadModel | None  # None without SQLAlchemy

    @property
    def unexpected_results(self) -> list[str]:
        """One sentence for each result that differs from the story."""
        differences = [
            f"{outcome.step.description!r} ended with {outcome.result}, expected {outcome.step.expected_result}"
            for outcome in self.outcomes
            if outcome.result != outcome.step.expected_result
        ]
        if self.shard_tally != self.replay_tally:
            differences.append("the replayed states differ from the live states")
        differences += self.timeout.unexpected_results
        return differences + (self.orders.unexpected_results if self.orders else [])


class BankDemo:
    """The bank part of one demo. Callers call the methods in the order of their definitions."""

    def __init__(self, settings: "Settings", connection: Connection, demo_name: str) -> None:
        """`demo_name` distinguishes the accounts of this demo from accounts of earlier demos in the same topics."""
        self.settings = settings
        self.connection = connection
        self.aggregate = registry.load(AGGREGATE, settings.aggregates, settings.root)
        self.topics = Topics(AGGREGATE, settings.topic_prefix)
        self.account_ids = account_ids(demo_name)
        self.story = story_steps(self.aggregate, demo_name)
        self._locations: dict[int, _CommandLocation] = {}  # step number → location of its command

    def send(self) -> None:
        """Send the story to the commands topic, one record after the other."""
        with Admin(self.connection) as admin:
            ensure_topics(admin, self.topics, TopicPlan(partitions=self.settings.partitions))
        self._first_outcomes = self._outcome_ends()  # partition → end of the outcomes before the story
        with CommandProducer(self.connection, self.settings.partitioner) as sender:
            for number, step in enumerate(self.story):
                sender.send(
                    self.topics.commands, step.key.encode(), step.value, partial(self._store_location, number)
                )
            sender.flush()

    def _store_location(self, number: int, partition: int, offset: int) -> None:
        self._locations[number] = (partition, offset)

    def run(
        self,
        context: "SparkContext",
        order: OrderDemo,
        on_story_decided: Callable[[StoryResults], None],
        on_payment_called_off: Callable[[], None],
    ) -> StoryResults:
        """Run the owners and the process manager, as `cqrs run` does, until the order's payment is called off.

        Once the story is decided and the process manager has claimed its subscriptions, the order is placed, and
        `on_story_decided` is called. `on_payment_called_off` is called before the run ends.
        """
        plan = prepare(self.settings, self.connection, {AGGREGATE: self.aggregate, **order.aggregates})
        plan = replace(
            plan,
            timing=replace(plan.timing, progress_interval=_POLL_INTERVAL, idle_check_interval=_POLL_INTERVAL),
        )
        process_plan = order.process_plan(plan)
        tasks = min(len(plan.partitions()) + len(process_plan.subscriptions), wait_for_slots(context))
        deadline = time.monotonic() + _RUN_TIMEOUT
        results: list[StoryResults] = []

        def check_progress(snapshot: Snapshot) -> None:
            decided_count = snapshot.total("commands")
            if not results and not snapshot.waiting_by_name() and decided_count >= len(self.story):
                order.place_order()
                results.append(
                    StoryResults(snapshot, self.outcomes(), {id: self.account(id) for id in self.account_ids})
                )
                on_story_decided(results[0])
            if decided_count >= len(self.story) + EXPECTED_OUTCOMES.total() and order.is_called_off():
                on_payment_called_off()
                raise _DemoFinished
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"the demo did not end within {_RUN_TIMEOUT:g} s",
                    "cqrs doctor checks the broker and Spark",
                )

        with suppress(_DemoFinished):
            run_owners(context, plan, tasks, check_progress, _ignore, process_plan)
        return results[0]

    def outcomes(self) -> list[StepOutcome]:
        """Return the steps with their outcomes from the outcomes topic; raises `CqrsError` for a missing outcome."""
        verdicts = self._verdicts()
        for number, step in enumerate(self.story):
            if self._locations[number] not in verdicts:
                raise CqrsError(
                    f"no outcome for {step.description!r}", "cqrs doctor checks the broker and Spark"
                )
        return [
            StepOutcome(step, verdicts[self._locations[number]]) for number, step in enumerate(self.story)
        ]

    def _verdicts(self) -> dict[_CommandLocation, Verdict]:
        """Return the outcomes written since the story was sent, by the location of their command."""
        verdicts = [
            read_outcome(record.value).data
            for partition, end in self._outcome_ends().items()
            for records in read(
                self.connection, self.topics.outcomes, partition, self._first_outcomes[partition], end
            )
            for record in records
        ]
        return {(verdict.partition, verdict.offset): verdict for verdict in verdicts}

    def _outcome_ends(self) -> dict[int, int]:
        topic = self.topics.outcomes
        partitions = range(partition_count(self.connection, topic))
        return {partition: end for partition, (_, end) in bounds(self.connection, topic, partitions).items()}

    def account(self, id: str) -> AggregateHistory:
        """Return an account, folded from its events as `cqrs show` does."""
        key = id.encode()
        ranges = find_ranges(self.connection, self.topics, key, self.settings.partitioner)
        records = read_records(self.connection, key, ranges)
        return history.fold_history(self.aggregate, records, history.parse_at(None))

    def shard_tally(self) -> Tally:
        """Return the tally of all accounts in the owners' shards (LMDB); raises `CqrsError` if a shard is missing."""
        count = total = 0
        state_dir = self.settings.state_dir
        statuses = aggregate_statuses(self.connection, self.topics, state_dir)
        for status in with_shards(statuses, self.topics, state_dir, self.aggregate):
            if status.shard is None or status.shard.digest is None:
                raise CqrsError(f"the state of partition {status.partition} is missing", "run the demo again")
            count += status.shard.aggregates
            total = digest.add_digests(total, status.shard.digest)
        return Tally(count, digest.as_hex(total))

    def replay(self, context: "SparkContext") -> Tally:
        """Return the tally of all accounts, folded from their events alone as `cqrs replay` does."""
        plan = driver.plan_replay(self.connection, self.topics, self.settings.aggregates, self.settings.root)
        total = driver.replay_events(context, plan).total
        return Tally(total.aggregates, digest.as_hex(total.digest))


class _DemoFinished(Exception):
    """Ends the run after the last step of the demo."""


def _ignore(_: object) -> None:
    """Discard a progress report, because the run is short."""
