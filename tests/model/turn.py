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

    def continue_at(
        self,
        label: str,
        step: str,
        broker: Broker | None = None,
        shard: Shard | None = None,
        **knowledge: Any,
    ) -> Step:
        """Continue at `step`. `knowledge` replaces fields of the owner."""
        return self._with_owner(label, self.owner._replace(step=step, **knowledge), broker, shard)

    def continue_next(self, label: str, **knowledge: Any) -> Step:
        """Continue at the next step."""
        return self.continue_at(label, self.rules.after(self.owner.step), **knowledge)

    def restart(self, label: str, starts: int = 1, shard: Shard | None = None) -> Step:
        """Start again. The owner forgets all knowledge except its claim and batch limit."""
        owner = self.owner
        return self._with_owner(
            label, Owner(self.rules.steps[0], owner.own_claim, owner.batch_limit, starts), shard=shard
        )

    def commit_position(self, label: str, offset: int, next_step: str, **knowledge: Any) -> Steps:
        """Commit only a position. Continue at `next_step` once the broker confirms it."""
        if self.is_fenced:
            yield self.fail(KafkaError._FENCED)
        elif self.broker.transaction is None:
            broker = self.broker.after_produce(
                self.number, offset, knowledge.get("own_claim", self.owner.own_claim)
            )
            yield self.continue_at(label, "await", broker=broker, next_step=next_step, **knowledge)

    def write_shard(self, label: str, step: str, shard: Shard, **knowledge: Any) -> Step:
        """Write the shard, under the conditions of every write."""
        owner, stored_shard, rules = self.owner, self.shard, self.rules
        if rules.shard_checks_token and stored_shard.token != owner.token:
            return self.drop_state("finds another owner's token in its shard")
        if rules.shard_checks_positions and stored_shard.positions != owner.known_shard_positions:
            dropped = self.drop_state("finds its shard at other positions")
            committed_claim = self.broker.claim
            if committed_claim is None or committed_claim.token != owner.token:
                return dropped
            return dropped._replace(
                broken_promise="another owner has written into the shard of a living owner"
            )
        positions = shard.positions
        shard = shard._replace(token=owner.token)
        step_after_write = self.continue_at(
            label, step, shard=shard, known_shard_positions=positions, positions=positions, **knowledge
        )
        return step_after_write._replace(broken_promise=self._shard_fault(shard))

    def fail(self, code: int, size: int = 0) -> Step:
        """End this start because a call to the broker failed, possibly about a batch of `size` commands."""
        error = KafkaError(code)
        if code == KafkaError._FENCED and not self.rules.fence_is_no_takeover:
            return self.return_superseded(Judgement.LATER_RUN)
        batch_limit = self.owner.batch_limit
        if size and self.rules.is_caused_by_batch(error):
            if size == 1:
                return self.stop_with_error(1, f"a command cannot be committed: {error.name()}")
            batch_limit = size // 2
        return self.drop_state(f"gets the error {error.name()}", batch_limit)

    def doubt(self, what: object) -> Step:
        """Continue with the check whether an inconsistency is real."""
        return self.continue_at(f"finds an inconsistency ({what})", "doubt")

    def drop_state(self, label: str, batch_limit: int | None = None) -> Step:
        """6: Drop all state of this start, and judge the claim."""
        owner = self.owner
        return self._with_owner(
            label, Owner("judge", owner.own_claim, batch_limit or owner.batch_limit, owner.starts)
        )

    def return_superseded(self, judgement: Judgement) -> Step:
        """End because the committed claim belongs to a later run or attempt."""
        run, submission, claimed = self.owner.run, self.owner.own_claim.submission, self.world.claimed
        if judgement is Judgement.LATER_RUN:
            justified = any(claimed_run > run for claimed_run, _ in claimed)
            return self._end_owner(
                "ends with exit 6", "" if justified else "exit 6, but no later run has claimed"
            )
        justified = any(
            claimed_run == run and claimed_submission > submission
            for claimed_run, claimed_submission in claimed
        )
        return self._end_owner(
            "returns without an error",
            "" if justified else "returned for a later attempt, but no later attempt has claimed",
        )

    def stop_with_error(self, exit_code: int, why: str) -> Step:
        """End with an error. This breaks a promise, because no operator acts in this model."""
        return self._end_owner(
            f"ends with exit {exit_code}: {why}", f"exit {exit_code}, but no operator has acted"
        )

    def end(self, label: str) -> Step:
        """End without an error."""
        return self._end_owner(label, "")

    def _end_owner(self, label: str, broken_promise: str) -> Step:
        return self._with_owner(label, Owner("gone", self.owner.own_claim))._replace(
            broken_promise=broken_promise
        )

    def _with_owner(
        self, label: str, owner: Owner, broker: Broker | None = None, shard: Shard | None = None
    ) -> Step:
        world = self.world
        shards = world.shards
        if shard is not None:
            shards = (*shards[: self.machine], shard, *shards[self.machine + 1 :])
        owners = (*world.owners[: self.number], owner, *world.owners[self.number + 1 :])
        after = world._replace(broker=broker or self.broker, shards=shards, owners=owners)
        return Step(f"{self.owner} {label}", after)

    def _shard_fault(self, shard: Shard) -> str:
        """Return the fault of a shard; empty if none.

        A shard must hold the result of the commands up to its position or later, and must never go back.
        """
        decided_count = shard.positions.commands
        if shard.state not in reference(self.scenario.commands).states[decided_count:]:
            return f"a shard with {decided_count} commands has the state {shard.state}"
        new_positions, old_positions = shard.positions, self.shard.positions
        went_back = (
            new_positions.events < old_positions.events or new_positions.outcomes < old_positions.outcomes
        )
        return "an older state overwrites a newer state" if went_back else ""
