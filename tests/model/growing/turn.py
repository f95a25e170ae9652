"""One owner's next steps. Each method is one of its steps."""

from collections.abc import Iterator

from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.repartitioning import Begun, Split
from tests.model.growing.deciding import (
    Entries,
    count_of,
    decide,
    outcome_of,
    put,
    recover_memory,
    without_moved_keys,
)
from tests.model.growing.world import (
    Command,
    Event,
    Forwarded,
    Memory,
    OpenForward,
    Owner,
    Rules,
    Scenario,
    World,
)

Steps = Iterator[tuple[str, World]]


def end_transaction(world: World, owner: tuple[int, int], keep: bool) -> World:
    """Return the world after the owner's open transaction is committed or aborted."""
    for number, part in enumerate(world.partitions):
        if any(isinstance(record, Forwarded) and record.owner == owner for record in part.commands):
            commands = tuple(_end_in_record(record, owner, keep) for record in part.commands)
            world = world.changed(number, commands=commands)
    return world


def _end_in_record(record: Command | Forwarded, owner: tuple[int, int], keep: bool) -> Command | Forwarded:
    if not isinstance(record, Forwarded) or record.owner != owner:
        return record
    return record.command if keep else record._replace(owner=None)


class Turn:
    """One owner of a world, and its next steps."""

    def __init__(
        self, scenario: Scenario, rules: Rules, world: World, number: int, owner_index: int, owner: Owner
    ) -> None:
        self.scenario, self.rules, self.world = scenario, rules, world
        self.number, self.owner, self.part = number, owner, world.partitions[number]
        self.others = (self.part.owners[:owner_index], self.part.owners[owner_index + 1 :])
        self.name = f"{number}.{owner.epoch}"
        self.memory = owner.memory

    def steps(self) -> Steps:
        if (crashes := self.world.remaining_faults.crashes) > 0:
            remaining_faults = self.world.remaining_faults._replace(crashes=crashes - 1)
            yield (
                f"fault: {self.name} dies",
                self._without_owner()._replace(remaining_faults=remaining_faults),
            )
        if self.part.epoch != self.owner.epoch:
            yield (
                f"{self.name} is fenced",
                end_transaction(self._without_owner(), (self.number, self.owner.epoch), keep=False),
            )
        elif self.owner.phase in ("new", "stale"):
            yield from self._recover()
        elif self.owner.phase == "adopt":
            yield self._adopt()
        elif self.owner.open is not None:
            yield self._commit(self.owner.open)
        else:
            yield from self._settle()
            yield from self._resubmit()
            yield from self._decide()

    def _without_owner(self) -> World:
        return self.world.changed(self.number, owners=(*self.others[0], *self.others[1]))

    def _with_owner(self, owner: Owner, **what: object) -> World:
        return self.world.changed(self.number, owners=(*self.others[0], owner, *self.others[1]), **what)

    def _recover(self) -> Steps:
        """Read the partition history, and wait for the parent's split."""
        owner, rules, first_count = self.owner, self.rules, self.scenario.counts[0]
        is_behind = owner.phase == "stale"
        lineage = PartitionLineage((first_count,)) if is_behind else self.world.lineage
        if rules.claim and is_behind and self.part.claim > owner.partition_count:
            yield f"{self.name} sees that its broker is behind", self._without_owner()
            return
        count = count_of(lineage, self.number) if rules.count_from_lineage else owner.partition_count
        if count is None:
            if rules.wait:
                return
            count = owner.partition_count
        at = max([outcome.offset + 1 for outcome in self.part.outcomes], default=0)
        at = max([at, *(outcome.commands for outcome in lineage.splits if outcome.partition == self.number)])
        imports = rules.adopt and lineage.phase(self.number, owner.partition_count) == "adopt"
        after = owner._replace(
            phase="adopt" if imports else "loop",
            effective_count=count,
            position=at,
            memory=recover_memory(rules, self.world, lineage, self.number),
        )
        claim = self.part.claim if is_behind else max(self.part.claim, count)
        yield f"{self.name} recovers, count {count}, at {at}", self._with_owner(after, claim=claim)

    def _adopt(self) -> tuple[str, World]:
        """Write the imported entries into the own deferred topic, one at a time, and then activate the partition."""
        entries: Entries = {}
        for key, entry in self.memory.entries:
            state = "parked, cancelled" if entry.state.endswith("cancelled") else "parked"
            entries[key] = (
                entry._replace(state=state, resubmitted_at=None) if self.rules.park_inherited else entry
            )
        missing = next((item for item in entries.items() if item not in self.part.deferred), None)
        if missing is not None:
            deferred = (*self.part.deferred, missing)
            return f"{self.name} takes an entry over", self._with_owner(self.owner, deferred=deferred)
        memory = self.memory._replace(entries=tuple(sorted(entries.items())))
        after = self._with_owner(self.owner._replace(phase="loop", memory=memory))
        lineage = self.world.lineage.with_record(Begun(self.number))
        return f"{self.name} has begun", after._replace(lineage=lineage)

    def _next_count(self) -> int | None:
        """Return the count to split to."""
        lineage, owner = self.world.lineage, self.owner
        if self.rules.one_growth_at_a_time and self.rules.count_from_lineage:
            return lineage.next_count(self.number, owner.partition_count)
        return owner.partition_count if owner.partition_count > owner.effective_count else None

    def _settle(self) -> Steps:
        """Decide the commands sent with the old count before the repartitioning, then split."""
        owner, part, after = self.owner, self.part, self._next_count()
        if after is None:
            return
        if owner.settled_at is None:
            end = len(part.commands) if self.rules.settle else owner.position
            yield f"{self.name} notes the log's end", self._with_owner(owner._replace(settled_at=end))
        elif owner.position >= owner.settled_at:
            ends = len(part.events), len(part.outcomes), len(part.deferred)
            split = Split(self.number, owner.effective_count, after, owner.position, *ends, 0)
            lineage = self._with_split(split)
            remaining_memory = without_moved_keys(self.memory, self.number, after)
            owner = owner._replace(effective_count=after, settled_at=None, memory=remaining_memory)
            world = self._with_owner(owner, claim=after)._replace(lineage=lineage)
            yield f"{self.name} splits at {owner.position}", world

    def _with_split(self, split: Split) -> PartitionLineage:
        lineage = self.world.lineage
        if self.rules.one_growth_at_a_time:
            return lineage.with_record(split)
        return PartitionLineage(lineage.counts, (*lineage.splits, split), lineage.activated)

    def _resubmit(self) -> Steps:
        """Resubmit a deferred command, which may be due at any time."""
        after, part = self._next_count(), self.part
        for key, entry in self.memory.entries:
            if entry.resubmitted_at is not None:
                continue
            if self.rules.silence and after is not None and entry.key % after != self.number:
                continue
            at = len(part.commands)
            resubmitted = entry._replace(
                state=entry.state.replace("parked", "said"), resubmitted_at=(self.number, at)
            )
            memory = self._changed(((key, resubmitted),))
            world = self._with_owner(
                self.owner._replace(memory=memory),
                commands=(*part.commands, Command("again", entry.id, entry.key)),
                deferred=(*part.deferred, (key, resubmitted)),
            )
            yield f"{self.name} says {entry.id} again @{at}", world

    def _changed(self, changes: tuple[tuple[str, object], ...]) -> Memory:
        entries: Entries = dict(self.memory.entries)
        for key, entry in changes:
            put(entries, key, entry)  # type: ignore[arg-type]
        return self.memory._replace(entries=tuple(sorted(entries.items())))

    def _decide(self) -> Steps:
        """Decide the next committed command."""
        owner, part, at = self.owner, self.part, self.owner.position
        while at < len(part.commands) and getattr(part.commands[at], "owner", 0) is None:
            at += 1
        command = part.commands[at] if at < len(part.commands) else None
        if not isinstance(command, Command):
            return
        decision = decide(
            self.rules,
            self.world.lineage,
            self.number,
            owner.effective_count,
            at,
            command,
            self.memory,
            self.scenario.fails,
        )
        outcome = outcome_of(at, command, decision)
        if decision.forward is not None:
            yield self._forward(command, decision.forward, OpenForward(at, outcome))
            return
        memory = self._changed(decision.changes)
        changes: dict[str, object] = {
            "outcomes": (*part.outcomes, outcome),
            "deferred": (*part.deferred, *decision.changes),
        }
        if decision.version:
            event = Event(command.key, decision.version, command.id, (self.number, at))
            changes["events"] = (*part.events, event)
            states = {**dict(memory.states), command.key: decision.version}
            memory = memory._replace(states=tuple(sorted(states.items())))
        if outcome.id and decision.status in ("accepted", "rejected"):
            ids = {**dict(memory.ids), (command.key, command.id): (self.number, at)}
            memory = memory._replace(ids=tuple(sorted(ids.items())))
        after = self._with_owner(owner._replace(position=at + 1, memory=memory), **changes)
        yield f"{self.name} decides {command.id}@{at}: {decision.status} v{decision.version}", after

    def _forward(self, command: Command, to: int, opened: OpenForward) -> tuple[str, World]:
        commands = (*self.world.partitions[to].commands, Forwarded((self.number, self.owner.epoch), command))
        world = self._with_owner(self.owner._replace(open=opened)).changed(to, commands=commands)
        return f"{self.name} forwards {command.id} to {to}@{len(commands) - 1}", world

    def _commit(self, opened: OpenForward) -> tuple[str, World]:
        owner = self.owner._replace(position=opened.outcome.offset + 1, open=None)
        world = self._with_owner(owner, outcomes=(*self.part.outcomes, opened.outcome))
        return f"{self.name} commits", end_transaction(world, (self.number, owner.epoch), keep=True)
