"""The whole state of the model: the broker, the shards, the owners, and the possible faults."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from cqrs_cli.core.stored import StoredState
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.state.store import Positions
from tests.model.broker import Broker
from tests.model.deciding import IN_SEQUENCE, BatchDecision, Commands, Memory


class Shard(NamedTuple):
    """A shard on a machine. It survives its writer."""

    token: str = ""
    positions: Positions = Positions()
    state: StoredState | None = None
    memory: Memory = ()


class Owner(NamedTuple):
    """One task. Its knowledge may be outdated, because anything may happen between two of its steps."""

    step: str
    own_claim: Claim
    batch_limit: int = 2  # maximal number of commands in its next batch
    starts: int = 1  # how often it has started
    # what it has read since its start
    committed_claim: Claim | None = None
    committed: int | None = None
    claimed: bool = False
    outcomes_end: int = 0
    next_offset: int = 0
    # its cache of the shard
    token: str = ""
    known_shard_positions: Positions = Positions()  # the shard's positions, as far as the owner knows
    positions: Positions = Positions()
    state: StoredState | None = None  # newer than the shard's state
    unapplied_ids: Memory = ()  # decided, but not in the shard yet
    # under way at the broker
    batch: BatchDecision | None = None
    next_step: str = ""

    @property
    def run(self) -> int:
        return self.own_claim.run_epoch

    def __str__(self) -> str:
        return f"run {self.run}.{self.own_claim.submission}"


class Driver(NamedTuple):
    """The driver that retires the first run from outside."""

    step: str = "idle"
    committed_claim: Claim | None = None


class World(NamedTuple):
    """One state of the model."""

    broker: Broker
    shards: tuple[Shard, ...]
    owners: tuple[Owner, ...]
    driver: Driver
    faults: int  # number of faults that may still happen
    #: (run, submission) of every claim that was ever committed.
    claimed: frozenset[tuple[int, int]] = frozenset()

    def with_owner(self, number: int, owner: Owner) -> "World":
        return self._replace(owners=(*self.owners[:number], owner, *self.owners[number + 1 :]))


class Step(NamedTuple):
    """One possible next step. `broken_promise` is the promise that it breaks."""

    label: str
    world: World
    broken_promise: str = ""


Steps = Iterator[Step]


@dataclass(frozen=True)
class Scenario:
    """The owners that take part, and the bounds of the model."""

    name: str
    owners: tuple[tuple[int, int], ...]  # run and submission of each, as (1, 0)
    machines: tuple[int, ...]  # the machine of each owner, which has its shard
    faults: int = 2
    starts: int = 2  # how often an owner may start; then it pauses forever
    may_be_retired: bool = False  # whether the driver may retire the first run
    warms: bool = False  # whether owners fold before they fence
    late_markers: bool = False  # whether a commit becomes visible in each log at its own time
    omits_positions: bool = False  # whether a batch may be committed without its position
    deletes_outcomes: bool = False  # whether retention may delete the outcomes
    commands: Commands = field(default=IN_SEQUENCE, repr=False)

    def first_world(self) -> World:
        """Return the first world: the commands exist, and no owner has started."""
        owners = tuple(self.owner(*run_and_submission) for run_and_submission in self.owners)
        shards = (Shard(),) * (1 + max(self.machines))
        return World(Broker(), shards, owners, Driver("idle" if self.may_be_retired else "gone"), self.faults)

    def owner(self, run: int, submission: int = 0) -> Owner:
        """Return an owner that has not started."""
        own_claim = Claim(run, f"r{run}", submission, 0, 0, "id", 1)
        return Owner("warm" if self.warms else "fence", own_claim)
