"""Performs the demo: sends a story, decides it together with an order, shows the accounts, and replays the events."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli import registry
from cqrs_cli.client import history
from cqrs_cli.client.history import AggregateHistory
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.core import digest
from cqrs_cli.core.messages.outcome import Verdict, read_outcome
from cqrs_cli.deciding.prepare import prepare
from cqrs_cli.demo.checkout import TOLD, CheckoutPlay, Timeout
from cqrs_cli.demo.project import AGGREGATE
from cqrs_cli.demo.read_model import ReadModel
from cqrs_cli.demo.story import Step, accounts, tell
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
_LONGEST = 120.0

#: Seconds between two progress polls of the driver, and two claim checks of owners; short, because a user waits.
_LOOK = 0.1

Place = tuple[int, int]  # partition and offset of a command


class StepOutcome(NamedTuple):
    """A step of the story and its outcome."""

    step: Step
    verdict: Verdict

    @property
    def ending(self) -> str:
        """The code, reason or status of the outcome, comparable with `Step.ends`."""
        return self.verdict.code or self.verdict.reason or self.verdict.status


class StoryTold(NamedTuple):
    """The decided story: a snapshot of the run, the outcomes, and the accounts by id."""

    decided: Snapshot
    outcomes: list[StepOutcome]
    accounts: dict[str, AggregateHistory]


class Tally(NamedTuple):
    """A set of aggregates: their number, and the digest of their ids, versions and states."""

    aggregates: int
    digest: str


class Performance(NamedTuple):
    """The results of one performance."""

    decided: Snapshot
    outcomes: list[StepOutcome]
    accounts: dict[str, AggregateHistory]
    live: Tally
    replayed: Tally
    timeout: Timeout
    orders: ReadModel | None  # None without SQLAlchemy

    @property
    def surprises(self) -> list[str]:
        """One sentence for each result that differs from the story."""
        found = [
            f"{outcome.step.says!r} ended with {outcome.ending}, not {outcome.step.ends}"
            for outcome in self.outcomes
            if outcome.ending != outcome.step.ends
        ]
        if self.live != self.replayed:
            found.append("the replay differs from the live state")
        return found + self.timeout.surprises + (self.orders.surprises if self.orders else [])


class Play:
    """One performance; callers call its methods in the order of their definitions."""

    def __init__(self, settings: "Settings", connection: Connection, name: str) -> None:
        """`name` distinguishes the accounts of this performance from other accounts in the same topics."""
        self.settings = settings
        self.connection = connection
        self.aggregate = registry.load(AGGREGATE, settings.aggregates, settings.root)
        self.topics = Topics(AGGREGATE, settings.topic_prefix)
        self.accounts = accounts(name)
        self.story = tell(self.aggregate, name)
        self._places: dict[int, Place] = {}  # step number → location of its command

    def send(self) -> None:
        """Send the story to the commands topic, one record after the other."""
        with Admin(self.connection) as admin:
            ensure_topics(admin, self.topics, TopicPlan(partitions=self.settings.partitions))
        self._before = self._ends()
        with CommandProducer(self.connection, self.settings.partitioner) as sender:
            for number, step in enumerate(self.story):
                sender.send(
                    self.topics.commands, step.key.encode(), step.value, partial(self._delivered, number)
                )
            sender.flush()

    def _delivered(self, number: int, partition: int, offset: int) -> None:
        self._places[number] = (partition, offset)

    def run(
        self,
        context: "SparkContext",
        order: CheckoutPlay,
        told: Callable[[StoryTold], None],
        over: Callable[[], None],
    ) -> StoryTold:
        """Decide and react, as `cqrs run` does, until the order's payment is called off.

        Once the story is decided and the process manager has claimed its subscriptions, the order is placed and `told`
        is called. `over` is called when the payment is called off, before the run ends.
        """
        plan = prepare(self.settings, self.connection, {AGGREGATE: self.aggregate, **order.aggregates})
        plan = replace(plan, timing=replace(plan.timing, progress_interval=_LOOK, idle_check_interval=_LOOK))
        hears = order.hearing(plan)
        tasks = min(len(plan.partitions()) + len(hears.subscriptions), wait_for_slots(context))
        deadline = time.monotonic() + _LONGEST
        story: list[StoryTold] = []

        def watch(snapshot: Snapshot) -> None:
            decided = snapshot.total("commands")
            if not story and not snapshot.waiting_by_name() and decided >= len(self.story):
                order.place()
                story.append(
                    StoryTold(snapshot, self.outcomes(), {one: self.account(one) for one in self.accounts})
                )
                told(story[0])
            if decided >= len(self.story) + TOLD.total() and order.is_called_off():
                over()
                raise _Over
            if time.monotonic() > deadline:
                raise UnavailableError(f"the demo did not end within {_LONGEST:g} s", "cqrs doctor")

        with suppress(_Over):
            run_owners(context, plan, tasks, watch, _ignore, hears)
        return story[0]

    def outcomes(self) -> list[StepOutcome]:
        """Return the steps with their outcomes from the outcomes topic; raises `CqrsError` for a missing outcome."""
        verdicts = self._verdicts()
        for number, step in enumerate(self.story):
            if self._places[number] not in verdicts:
                raise CqrsError(f"no outcome for {step.says!r}", "cqrs doctor looks for the cause")
        return [StepOutcome(step, verdicts[self._places[number]]) for number, step in enumerate(self.story)]

    def _verdicts(self) -> dict[Place, Verdict]:
        """Return the outcomes written since the story was sent, by the location of their command."""
        verdicts = [
            read_outcome(record.value).data
            for partition, end in self._ends().items()
            for records in read(
                self.connection, self.topics.outcomes, partition, self._before[partition], end
            )
            for record in records
        ]
        return {(verdict.partition, verdict.offset): verdict for verdict in verdicts}

    def _ends(self) -> dict[int, int]:
        topic = self.topics.outcomes
        numbers = range(partition_count(self.connection, topic))
        return {number: end for number, (_, end) in bounds(self.connection, topic, numbers).items()}

    def account(self, account: str) -> AggregateHistory:
        """Return an account, folded from its events as `cqrs show` does."""
        key = account.encode()
        places = history.find_ranges(self.connection, self.topics, key, self.settings.partitioner)
        records = history.read_records(self.connection, key, places)
        return history.fold_history(self.aggregate, account, records, history.parse_at(None))

    def live(self) -> Tally:
        """Return the tally of all accounts in the owners' shards (LMDB); raises `CqrsError` if a shard is missing."""
        count = total = 0
        state_dir = self.settings.state_dir
        places = aggregate_statuses(self.connection, self.topics, state_dir)
        for part in with_shards(places, self.topics, state_dir, self.aggregate.state):
            if part.shard is None or part.shard.digest is None:
                raise CqrsError(f"the state of partition {part.partition} is gone", "run the demo again")
            count += part.shard.aggregates
            total = digest.add_digests(total, part.shard.digest)
        return Tally(count, digest.as_hex(total))

    def replay(self, context: "SparkContext") -> Tally:
        """Return the tally of all accounts, folded from their events alone as `cqrs replay` does."""
        wanted = driver.plan_replay(
            self.connection, self.topics, self.settings.aggregates, self.settings.root
        )
        total = driver.replay_events(context, wanted).total
        return Tally(total.aggregates, digest.as_hex(total.digest))


class _Over(Exception):
    """Ends the run after the last act."""


def _ignore(_: object) -> None:
    """Discard a note, because the run is too short for notes."""
