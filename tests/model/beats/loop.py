"""Step 5 of the owner protocol, splits, and the watchdog."""

from collections.abc import Iterator

from msgspec.structs import replace

from cqrs_cli.ownership.claim import after_batch, judge, with_hung_command
from cqrs_cli.ownership.poison_detection.attempts import ATTEMPTS
from tests.model.beats import broker
from tests.model.beats.broker import is_readable, visible
from tests.model.beats.turn import Turn
from tests.model.beats.world import Commit, Owner, Step, Steps


class LoopTurn(Turn):
    """An owner in its loop."""

    def decide_loop(self) -> Steps:
        """5: Decide a command, split, commit the position while idle, or end."""
        owner, world = self.owner, self.world
        if owner.drain_end is not None and owner.next_offset >= owner.drain_end and world.split_end is None:
            yield self.continue_as("has drained", owner._replace(step="split"))
            return
        if owner.next_offset < self.count:
            yield from self._decide()
        if owner.committed.offset != owner.next_offset:
            yield from self.commit_position("commits its position", owner.next_offset, "loop", owner)
        elif owner.next_offset >= self.count:
            yield self.continue_as("ends", Owner("gone", owner.claim, 0, owner.is_old))
        elif judge(owner.claim, world.commit.claim).must_return:
            yield self.continue_as("returns", Owner("gone", owner.claim, 0, owner.is_old))

    def _decide(self) -> Steps:
        owner, world, command = self.owner, self.world, self.owner.next_offset
        if world.epoch != self.number:
            yield self.drop("finds that it is fenced")
            return
        if world.transaction is not None:
            return
        suspects = owner.claim.suspects
        if (
            suspects is not None
            and suspects.limit == 1
            and (suspects.announced, suspects.deciding)
            != (
                command,
                True,
            )
        ):
            announced = owner._replace(claim=replace(owner.claim, suspects=suspects.announce(command)))
            yield from self.commit_position(f"announces command {command}", command, "loop", announced)
            return
        culprit = None if suspects is None else suspects.culprit
        is_failed = culprit is not None and culprit.offset == command and culprit.attempts >= ATTEMPTS
        if self.scenario.deadly == command and not is_failed:
            yield self.crash()
            return
        if self.rules.checks_offsets and not self._are_ends_current():
            yield self.drop("finds its records at other offsets, and aborts")
            return
        claim = after_batch(owner.claim, owner.claim.counts, 1, command + 1)
        for commit in self._commits(Commit(command + 1, claim)):
            label = f"decides {command}{'' if commit else ' without its position'}"
            after = owner._replace(step="await", claim=claim)
            produced = broker.produce(self.scenario, world, self.number, command, commit, is_failed)
            yield self.continue_as(label, after, produced)

    def _commits(self, commit: Commit) -> Iterator[Commit | None]:
        """Yield the position, and None if it may be omitted: `deciding.session.OwnerSession.is_position_due`."""
        yield commit
        owner, rules = self.owner, self.rules
        has_changed = commit.claim != owner.committed.claim and rules.commits_changed_claim
        has_others = self.scenario.commands[owner.next_offset] == "deferred" and rules.commits_other_records
        if rules.omits_positions and not (owner.is_old or has_changed or has_others):
            yield None

    def _are_ends_current(self) -> bool:
        """Return True if the next records get their expected offsets."""
        owner, logs = self.owner, self.world.logs
        has_event = self.scenario.commands[owner.next_offset] == "accepted"
        return owner.outcomes_end == len(logs.outcomes) and (
            not has_event or owner.events_end == len(logs.events)
        )

    def split(self) -> Steps:
        """Record the ends of the logs for the child, and commit the claim: one transaction."""
        owner, world = self.owner, self.world
        if world.epoch != self.number:
            yield self.drop("finds that it is fenced")
        elif world.transaction is None:
            logs = world.logs
            ends = owner.outcomes_end, owner.events_end
            if self.rules.proves_ends_before_split and ends != (len(logs.outcomes), len(logs.events)):
                yield self.drop("finds its proof at other offsets, and aborts")
                return
            is_missed = any(slot.status == "committed" for slot in logs.outcomes[owner.outcomes_end :])
            commit = Commit(owner.next_offset, owner.claim)
            after = owner._replace(step="loop", committed=commit)
            yield self.continue_as(
                f"splits at {owner.next_offset}",
                after,
                world._replace(split_end=owner.outcomes_end, commit=commit),
                "a split omits decisions" if is_missed else "",
            )

    def hang(self) -> Steps:
        """Let the watchdog take a command for hanging: fence, blame the command, end the process.

        The command may be committed between the watchdog's decision and its fence.
        """
        owner, world = self.owner, self.world
        if owner.step not in ("loop", "await") or broker.is_busy(world):
            return
        fenced, committed = broker.fence(world, self.number), world.commit
        if committed.offset is None or committed.claim is None or not is_readable(fenced.logs.outcomes):
            return
        offset = committed.offset
        if self.rules.blames_after_outcomes:
            offset = self.first_undecided(offset, fenced.logs)
        for command in {max(0, owner.next_offset - 1), min(owner.next_offset, self.count - 1)}:
            after = fenced
            is_blamed = offset <= command and not judge(owner.claim, committed.claim).must_return
            if is_blamed:
                after = fenced._replace(
                    commit=Commit(offset, with_hung_command(committed.claim, command, 60))
                )
            dead = LoopTurn(self.scenario, self.rules, after, self.number).crash()
            is_decided = command in [slot.command for slot in visible(fenced.logs.outcomes)]
            yield Step(
                f"{owner} is ended by its watchdog in command {command}",
                dead.world,
                "a decided command is blamed" if is_blamed and is_decided else "",
            )
