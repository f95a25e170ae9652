"""Steps 1 to 4 of the owner protocol as a state machine, with the functions of the code."""

from collections.abc import Callable

from msgspec.structs import replace

from cqrs_cli.deciding.in_doubt import CommandTraces, was_committed
from cqrs_cli.deciding.position import LogState, gap, position
from cqrs_cli.errors import ContradictionError
from cqrs_cli.ownership.claim import Claim, is_inconsistency_real, judge, successor_claim, with_suspects
from tests.model.beats import broker
from tests.model.beats.broker import is_readable, visible
from tests.model.beats.loop import LoopTurn
from tests.model.beats.world import Commit, Owner, Snapshot, Step, Steps

#: The maximal number of commands in a batch, which is the number of suspects. A batch of the model has one command.
BATCH_LIMIT = 2


class OwnerTurn(LoopTurn):
    """An owner at any step."""

    def steps(self) -> Steps:
        """Yield the owner's next steps."""
        actions: dict[str, Callable[[], Steps]] = {
            "fence": self._fence,
            "late fence": self._fence,
            "claim": self._claim,
            "position": self._find_position,
            "recover": self._recover,
            "loop": self.decide_loop,
            "split": self.split,
            "restart": self._restart,
        }
        if self.owner.step in actions:
            yield from actions[self.owner.step]()

    def _restart(self) -> Steps:
        """6: Judge the claim, and start again in the same process."""
        owner = self.owner
        if judge(owner.claim, self.world.commit.claim).must_return:
            yield self.continue_as("returns", Owner("gone", owner.claim, 0, owner.is_old))
        else:
            yield self.continue_as("starts again", self.started_again(owner.claim))

    def _resolve(self) -> Step:
        """Resolve a hidden transaction, as `deciding.in_doubt` does, and start again."""
        logs, world = self.world.logs, self.world
        outcomes, events = visible(logs.outcomes), visible(logs.events)
        traces = CommandTraces(
            world.commit.offset,
            outcomes[-1].command if outcomes else None,
            events[-1].command if events else None,
            broker.first_hidden(logs.outcomes),
            broker.first_hidden(logs.events),
            hidden_key=broker.first_hidden(logs.others) if self.rules.traces_other_records else None,
        )
        is_committed = self.rules.resolves_by_traces and was_committed(traces)
        result = "commits" if is_committed else "aborts"
        owner = self.owner._replace(step="fence")
        return self.continue_as(
            f"{result} a hidden transaction", owner, broker.end_hidden(world, is_committed)
        )

    def _fence(self) -> Steps:
        """1: Fence. The broker accepts the fence once a pending commit is visible everywhere."""
        outcomes = self.world.logs.outcomes
        if self.owner.step == "fence" and not self.rules.reads_after_fence:
            if is_readable(outcomes):
                position = len(visible(outcomes))
                owner = self.owner._replace(step="late fence", next_offset=position)
                yield self.continue_as("reads the outcomes", owner)
        elif not broker.is_busy(self.world):
            yield self.continue_as(
                "fences", self.owner._replace(step="claim"), broker.fence(self.world, self.number)
            )

    def _claim(self) -> Steps:
        """2: Read the group's offset and claim, and commit the own claim at the first undecided command."""
        owner, world = self.owner, self.world
        if world.epoch != self.number:
            yield self.drop("finds that it is fenced")
            return
        if world.hidden_commit is not None or not is_readable(world.logs.outcomes):
            if world.transaction is None:
                yield self._resolve()
            return
        for label, snapshot in self.snapshots(reads_group=True):
            read = snapshot.commit
            if judge(owner.claim, read.claim).must_return:
                yield self.continue_as(f"returns{label}", Owner("gone", owner.claim, 0, owner.is_old))
                continue
            claim = with_suspects(successor_claim(owner.claim, read.claim, ""), read.claim, BATCH_LIMIT)
            broken = self._false_suspicion(read.claim, claim)
            after = owner._replace(claim=claim, read=read, step="position")
            if read.offset is None:
                yield self.continue_as(f"finds no offset{label}", after, broken=broken)
                continue
            for other_label, other in self.snapshots():
                offset = read.offset
                if self.rules.reads_last_outcome and not owner.is_old:
                    offset = self.first_undecided(offset, other.logs)
                after = after._replace(read=Commit(offset, read.claim))
                yield from self.commit_position(
                    f"claims{label}{other_label}", offset, "position", after, broken
                )

    def _false_suspicion(self, before: Claim | None, claim: Claim) -> str:
        """Return the broken promise if commands are suspected although the dead owner had decided commands."""
        if before is None or claim.suspects is None or before.suspects is not None:
            return ""
        if self.scenario.loses_markers or self.scenario.outdated_group:
            return ""  # a lost or outdated claim: a false suspicion costs a few small batches
        decided = any(
            slot.claim_number == before.number and slot.status in ("committed", "deleted")
            for slot in self.world.logs.outcomes
        )
        return "commands are suspected, although their owner has decided a command" if decided else ""

    def _find_position(self) -> Steps:
        """3: Derive the position from the log."""
        for label, snapshot in self.snapshots():
            logs = snapshot.logs
            if not (is_readable(logs.outcomes) and is_readable(logs.events)):
                continue
            yield from self._judge_position(label, snapshot)
        logs = self.world.logs
        if self.world.transaction is None and not (is_readable(logs.outcomes) and is_readable(logs.events)):
            yield self._resolve()

    def _judge_position(self, label: str, snapshot: Snapshot) -> Steps:
        owner, logs = self.owner, snapshot.logs
        state = self._log_state(snapshot)
        try:
            next_offset = owner.next_offset if not self.rules.reads_after_fence else position(state)
            if gap(state, next_offset) != (next_offset, next_offset):
                raise ContradictionError("a command before the committed offset has no outcome", "")
        except ContradictionError as error:
            yield self._doubt(f"{error}{label}")
            return
        claim = replace(owner.claim, topic_id="id", other_ids=("e", "o"), partitions=1)
        if claim.suspects is not None:
            claim = replace(claim, suspects=claim.suspects.limited_to(self.count - next_offset))
        after = owner._replace(
            claim=claim,
            next_offset=next_offset,
            outcomes_end=len(logs.outcomes),
            read=Commit(),
            step="recover",
        )
        if owner.committed == Commit(next_offset, claim):
            yield self.continue_as(f"continues at {next_offset}{label}", after)
        else:
            yield from self.commit_position(
                f"continues at {next_offset}{label}", next_offset, "recover", after
            )

    def _log_state(self, snapshot: Snapshot) -> LogState:
        logs, owner = snapshot.logs, self.owner
        outcomes, events = visible(logs.outcomes), visible(logs.events)
        deleted = [n for n, slot in enumerate(logs.outcomes) if slot.status == "deleted"]
        has_event = bool(events) and self.rules.reads_last_event
        return LogState(
            aggregate="counter",
            topic="c",
            partition=0,
            topic_id="id",
            other_ids=("e", "o"),
            partitions=1,
            start=0,
            end=snapshot.commands_end,
            last_outcome_command=outcomes[-1].command if outcomes else None,
            last_outcome_matches=bool(outcomes),
            outcomes_start=deleted[-1] + 1 if deleted else 0,
            has_events=has_event,
            last_event_command=events[-1].command if has_event else None,
            last_event_matches=has_event,
            is_new=False,
            committed=owner.read.offset,
            claim=owner.read.claim,
        )

    def _doubt(self, problem: str) -> Step:
        """End with exit code 5 if the inconsistency is real; outdated brokers explain it, so it does not persist."""
        owner, world = self.owner, self.world
        if world.outdated is None and is_inconsistency_real(
            owner.claim, owner.committed.claim is not None, world.commit.claim
        ):
            broken = "" if owner.is_old else "exit 5, but no operator has acted"
            stopped = Owner("gone", owner.claim, 0, owner.is_old)
            return self.continue_as(f"ends with exit 5: {problem}", stopped, broken=broken)
        return self.drop(f"does not believe: {problem}")

    def _recover(self) -> Steps:
        """4: Fold the logs up to their ends, which are read again."""
        for label, snapshot in self.snapshots():
            logs = snapshot.logs
            if all(map(is_readable, logs)):
                owner = self.owner
                outcomes_end = len(logs.outcomes)
                if self.rules.appends_after_position and outcomes_end != owner.outcomes_end:
                    yield self.drop(f"reads another end of the outcomes{label}")
                    continue
                drain_end = snapshot.commands_end if self.scenario.splits else None
                after = owner._replace(
                    step="loop", outcomes_end=outcomes_end, events_end=len(logs.events), drain_end=drain_end
                )
                yield self.continue_as(f"recovers{label}", after)
        if self.world.transaction is None and not all(map(is_readable, self.world.logs)):
            yield self._resolve()
