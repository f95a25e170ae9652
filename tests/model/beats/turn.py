"""One owner in one world: the actions that all steps share."""

from collections.abc import Iterator

from msgspec.structs import replace

from cqrs_cli.ownership.claim import Claim
from tests.model.beats import broker
from tests.model.beats.broker import visible
from tests.model.beats.world import Commit, Logs, Owner, Rules, Scenario, Snapshot, Step, Steps, World


class Turn:
    """One owner in one world. Each method returns the owner's possible next steps."""

    def __init__(self, scenario: Scenario, rules: Rules, world: World, number: int) -> None:
        self.scenario, self.rules, self.world, self.number = scenario, rules, world, number
        self.owner = world.owners[number]

    def crash(self) -> Step:
        """Kill the process. Spark starts the next attempt of the task, which knows nothing."""
        owner = self.owner
        claim = replace(owner.claim, attempt=owner.claim.attempt + 1, untried=False, suspects=None)
        return self.continue_as("dies", self.started_again(claim))

    @property
    def count(self) -> int:
        return len(self.scenario.commands)

    def continue_as(self, label: str, owner: Owner, world: World | None = None, broken: str = "") -> Step:
        after = (world or self.world).with_owner(self.number, owner)
        return Step(f"{self.owner} {label}", after, broken)

    def started_again(self, claim: Claim) -> Owner:
        owner = self.owner
        if owner.starts <= 1:
            return Owner("gone", claim, 0, owner.is_old)
        return Owner("fence", claim, owner.starts - 1, owner.is_old)

    def drop(self, label: str, world: World | None = None) -> Step:
        return self.continue_as(label, self.owner._replace(step="restart"), world)

    def snapshots(self, reads_group: bool = False) -> Iterator[tuple[str, Snapshot]]:
        """Yield what brokers return: a current broker, and a broker that is cut off."""
        yield "", broker.snapshot(self.scenario, self.world)
        scenario = self.scenario
        if self.world.outdated and (scenario.outdated_group if reads_group else scenario.outdated_logs):
            yield f" from an outdated {'coordinator' if reads_group else 'leader'}", self.world.outdated

    def first_undecided(self, offset: int, logs: Logs) -> int:
        """Return the position by `ownership.decided_end`; an older version takes it from the group alone."""
        outcomes = visible(logs.outcomes)
        return max(offset, outcomes[-1].command + 1) if outcomes else offset

    def commit_position(
        self, label: str, offset: int, next_step: str, owner: Owner, broken: str = ""
    ) -> Steps:
        """Commit only a position. Continue at `next_step` when the broker confirms it."""
        if self.world.epoch != self.number:
            yield self.drop("finds that it is fenced")
        elif self.world.transaction is None:
            world = broker.produce_position(self.world, self.number, Commit(offset, owner.claim))
            yield self.continue_as(label, owner._replace(step="await", next_step=next_step), world, broken)
