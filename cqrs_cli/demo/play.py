"""The demo, act by act: send a story, decide it beside an order, look at the accounts, fold the events to compare."""

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
from cqrs_cli.jobs.engine.slots import slots
from cqrs_cli.jobs.replay import driver
from cqrs_cli.jobs.run import run_owners
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.readers import bounds, partitions, read
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from cqrs_cli.runs.snapshot import Snapshot
from cqrs_cli.status.decided import decided_places
from cqrs_cli.status.shards import with_shards

if TYPE_CHECKING:
    from pyspark import SparkContext

    from cqrs_cli.settings.settings import Settings

#: Seconds that the run may take, however busy the machine.
_LONGEST = 120.0

#: Seconds between two looks, of the driver at the run and of its owners at their claims: somebody waits for it.
_LOOK = 0.1

Place = tuple[int, int]  # partition and offset of a command


class StepOutcome(NamedTuple):
    """A step of the story, and the verdict on it."""

    step: Step
    verdict: Verdict

    @property
    def ending(self) -> str:
        """The end of the step, in the words of `Step.ends`."""
        return self.verdict.code or self.verdict.reason or self.verdict.status


class StoryTold(NamedTuple):
    """The story, decided: a look at the run, the outcomes, and the accounts by their ids."""

    decided: Snapshot
    outcomes: list[StepOutcome]
    accounts: dict[str, AggregateHistory]


class Tally(NamedTuple):
    """A set of aggregates: how many, and the digest of their ids, versions and states."""

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
    orders: ReadModel | None  # None where there is no SQLAlchemy

    @property
    def surprises(self) -> list[str]:
        """One sentence for each result that the story does not expect."""
        found = [
            f"{outcome.step.says!r} ended with {outcome.ending}, not {outcome.step.ends}"
            for outcome in self.outcomes
            if outcome.ending != outcome.step.ends
        ]
        if self.live != self.replayed:
            found.append("the replay differs from the live state")
        return found + self.timeout.surprises + (self.orders.surprises if self.orders else [])


class Play:
    """One performance; its acts are called in the order they stand here."""

    def __init__(self, settings: "Settings", connection: Connection, name: str) -> None:
        """`name` makes this performance's accounts differ from others in the same topics."""
        self.settings = settings
        self.connection = connection
        self.aggregate = registry.load(AGGREGATE, settings.aggregates, settings.root)
        self.topics = Topics(AGGREGATE, settings.topic_prefix)
        self.accounts = accounts(name)
        self.story = tell(self.aggregate, name)
        self._places: dict[int, Place] = {}  # by the number of the step

    def send(self) -> None:
        """The story goes into the commands topic, one record after the other."""
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

        The order is placed, and `told` called, as soon as the story is decided and the process listens; `over` when the
        payment is called off, before the run ends.
        """
        plan = prepare(self.settings, self.connection, {AGGREGATE: self.aggregate, **order.aggregates})
        plan = replace(plan, timing=replace(plan.timing, progress_interval=_LOOK, idle_check=_LOOK))
        hears = order.hearing(plan)
        tasks = min(len(plan.partitions()) + len(hears.subscriptions), slots(context))
        deadline = time.monotonic() + _LONGEST
        story: list[StoryTold] = []

        def watch(snapshot: Snapshot) -> None:
            decided = snapshot.total("commands")
            if not story and not snapshot.waiting_places() and decided >= len(self.story):
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
        """The steps with their outcomes, from the outcomes topic; raises `CqrsError` for a step that has none."""
        verdicts = self._verdicts()
        for number, step in enumerate(self.story):
            if self._places[number] not in verdicts:
                raise CqrsError(f"no outcome for {step.says!r}", "cqrs doctor looks for the cause")
        return [StepOutcome(step, verdicts[self._places[number]]) for number, step in enumerate(self.story)]

    def _verdicts(self) -> dict[Place, Verdict]:
        """The verdicts written since the story was sent, by the place of their command."""
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
        numbers = range(partitions(self.connection, topic))
        return {number: end for number, (_, end) in bounds(self.connection, topic, numbers).items()}

    def account(self, account: str) -> AggregateHistory:
        """An account as its events tell it, folded as `cqrs show` does."""
        key = account.encode()
        places = history.find_ranges(self.connection, self.topics, key, self.settings.partitioner)
        records = history.read_records(self.connection, key, places)
        return history.fold_history(self.aggregate, account, records, history.parse_at(None))

    def live(self) -> Tally:
        """All accounts as their owners keep them, in LMDB; raises `CqrsError` if a shard is gone."""
        count = total = 0
        state_dir = self.settings.state_dir
        places = decided_places(self.connection, self.topics, state_dir)
        for part in with_shards(places, self.topics, state_dir, self.aggregate.state):
            if part.shard is None or part.shard.digest is None:
                raise CqrsError(f"the state of partition {part.partition} is gone", "run the demo again")
            count += part.shard.aggregates
            total = digest.add(total, part.shard.digest)
        return Tally(count, digest.as_hex(total))

    def replay(self, context: "SparkContext") -> Tally:
        """All accounts from their events alone, as `cqrs replay` folds them."""
        wanted = driver.plan_replay(
            self.connection, self.topics, self.settings.aggregates, self.settings.root
        )
        total = driver.replay_events(context, wanted).total
        return Tally(total.aggregates, digest.as_hex(total.digest))


class _Over(Exception):
    """The last act has come to its end."""


def _ignore(_: object) -> None:
    """This run is over before a note is worth reading."""
