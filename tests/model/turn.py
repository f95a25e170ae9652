"""One owner's next step: its effect on the world, and the promises that it must not break."""

from typing import Any

from confluent_kafka import KafkaError

from cqrs_cli.ownership.claim import Judgement
from tests.model.broker import Broker
from tests.model.deciding import reference
from tests.model.rules import Rules
from tests.model.world import Owner, Scenario, Shard, Step, Steps, World


class Turn:
    """One owner in one world. Each method returns the world after an action."""

    def __init__(self, scenario: Scenario, rules: Rules, world: World, number: int) -> None:
        self.scenario, self.rules, self.world, self.number = scenario, rules, world, number
        self.owner, self.broker = world.owners[number], world.broker
        self.machine = scenario.machines[number]
        self.shard = world.shards[self.machine]
        self.is_fenced = world.broker.epoch != number

    def to(
        self, label: str, step: str, broker: Broker | None = None, shard: Shard | None = None, **known: Any
    ) -> Step:
        """Continue at `step` with more knowledge."""
        return self._be(label, self.owner._replace(step=step, **known), broker, shard)

    def next(self, label: str, **known: Any) -> Step:
        """Continue at the next step."""
        return self.to(label, self.rules.after(self.owner.step), **known)

    def begins(self, label: str, starts: int = 1, shard: Shard | None = None) -> Step:
        """Start again without knowledge."""
        owner = self.owner
        return self._be(label, Owner(self.rules.steps[0], owner.mine, owner.most, starts), shard=shard)

    def sends(self, label: str, offset: int, then: str, **known: Any) -> Steps:
        """Commit only a position. Continue at `then` once the broker confirms it."""
        if self.is_fenced:
            yield self.fails(KafkaError._FENCED)
        elif self.broker.transaction is None:
            broker = self.broker.produced(self.number, offset, known.get("mine", self.owner.mine))
            yield self.to(label, "await", broker=broker, then=then, **known)

    def writes(self, label: str, step: str, shard: Shard, **known: Any) -> Step:
        """Write the shard, under the conditions of every write."""
        owner, found, rules = self.owner, self.shard, self.rules
        if rules.shard_checks_token and found.token != owner.token:
            return self.drops("finds its shard taken by another")
        if rules.shard_checks_positions and found.positions != owner.flushed:
            refused = self.drops("finds its shard at other positions")
            committed_claim = self.broker.claim
            if committed_claim is None or committed_claim.token != owner.token:
                return refused
            return refused._replace(wrong="somebody has written into a living owner's shard")
        at = shard.positions
        shard = shard._replace(token=owner.token)
        step_ = self.to(label, step, shard=shard, flushed=at, positions=at, **known)
        return step_._replace(wrong=self._misled(shard))

    def fails(self, code: int, size: int = 0) -> Step:
        """End this start because a call to the broker failed, possibly about a batch of `size` commands."""
        error = KafkaError(code)
        if code == KafkaError._FENCED and not self.rules.fenced_says_nothing:
            return self.returns(Judgement.LATER_RUN)
        most = self.owner.most
        if size and self.rules.is_caused_by_batch(error):
            if size == 1:
                return self.stops(1, f"a command cannot be committed: {error.name()}")
            most = size // 2
        return self.drops(f"is told {error.name()}", most)

    def doubts(self, what: object) -> Step:
        """Continue with the check whether to believe an inconsistency."""
        return self.to(f"sees a contradiction ({what})", "doubt")

    def drops(self, label: str, most: int | None = None) -> Step:
        """6: Drop the state at the broker and in memory."""
        owner = self.owner
        return self._be(label, Owner("judge", owner.mine, most or owner.most, owner.starts))

    def returns(self, judgement: Judgement) -> Step:
        """End because the committed claim is judged to be a later one."""
        run, submission, claimed = self.owner.run, self.owner.mine.submission, self.world.claimed
        if judgement is Judgement.LATER_RUN:
            justified = any(other > run for other, _ in claimed)
            return self._gone("ends with exit 6", "" if justified else "exit 6, but no later run has claimed")
        justified = any(other == run and later > submission for other, later in claimed)
        return self._gone(
            "ends quietly", "" if justified else "a straggler, but no later attempt has claimed"
        )

    def stops(self, exit_code: int, why: str) -> Step:
        """End with an error, which is always wrong here: no operator acts in this model."""
        return self._gone(
            f"ends with exit {exit_code}: {why}", f"exit {exit_code} without an operator's fault"
        )

    def leaves(self, label: str) -> Step:
        """End without an error."""
        return self._gone(label, "")

    def _gone(self, label: str, wrong: str) -> Step:
        return self._be(label, Owner("gone", self.owner.mine))._replace(wrong=wrong)

    def _be(self, label: str, owner: Owner, broker: Broker | None = None, shard: Shard | None = None) -> Step:
        world = self.world
        shards = world.shards
        if shard is not None:
            shards = (*shards[: self.machine], shard, *shards[self.machine + 1 :])
        owners = (*world.owners[: self.number], owner, *world.owners[self.number + 1 :])
        after = world._replace(broker=broker or self.broker, shards=shards, owners=owners)
        return Step(f"{self.owner} {label}", after)

    def _misled(self, shard: Shard) -> str:
        """Return the fault of a shard; empty if none.

        A shard must hold the result of the commands up to its position or later, and must never go back.
        """
        at = shard.positions.commands
        if shard.state not in reference(self.scenario.commands).states[at:]:
            return f"a shard that has seen {at} commands holds {shard.state}"
        now, before = shard.positions, self.shard.positions
        went_back = now.events < before.events or now.outcomes < before.outcomes
        return "an older state is written over a newer one" if went_back else ""
