"""One owner's next steps. Each method is one of its steps."""

from collections.abc import Iterator

from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.records import Begun, Split
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
    Outcome,
    Owner,
    Rules,
    Scenario,
    World,
)

Steps = Iterator[tuple[str, World]]


def end_transaction(world: World, owner: tuple[int, int], commits: bool) -> World:
    """Return the world after the owner's open transaction is committed or aborted."""
    for number, partition in enumerate(world.partitions):
        if any(isinstance(record, Forwarded) and record.owner == owner for record in partition.commands):
            commands = tuple(_end_in_record(record, owner, commits) for record in partition.commands)
            world = world.changed(number, commands=commands)
    return world


def _end_in_record(record: Command | Forwarded, owner: tuple[int, int], commits: bool) -> Command | Forwarded:
    if not isinstance(record, Forwarded) or record.owner != owner:
        return record
    return record.command if commits else record._replace(owner=None)


class Turn:
    """One owner of a world, and its next steps."""

    def __init__(
        self, scenario: Scenario, rules: Rules, world: World, number: int, owner_index: int, owner: Owner
    ) -> None:
        self.scenario, self.rules, self.world = scenario, rules, world
        self.number, self.owner, self.partition = number, owner, world.partitions[number]
        self.others = (self.partition.owners[:owner_index], self.partition.owners[owner_index + 1 :])
        self.name = f"{number}.{owner.epoch}"
        self.memory = owner.memory

    def steps(self) -> Steps:
        if (crashes := self.world.remaining_faults.crashes) > 0:
            remaining_faults = self.world.remaining_faults._replace(crashes=crashes - 1)
            yield (
                f"fault: {self.name} dies",
                self._without_owner()._replace(remaining_faults=remaining_faults),
            )
        if self.partition.epoch != self.owner.epoch:
            yield (
                f"{self.name} is fenced",
                end_transaction(self._without_owner(), (self.number, self.owner.epoch), commits=False),
            )
        elif self.owner.phase in ("new", "stale"):
            yield from self._recover()
        elif self.owner.phase == "adopt":
            yield self._import_entry()
        elif self.owner.open_outcome is not None:
            yield self._commit(self.owner.open_outcome)
        else:
            yield from self._drain()
            yield from self._resubmit()
            yield from self._decide()

    def _without_owner(self) -> World:
        return self.world.changed(self.number, owners=(*self.others[0], *self.others[1]))

    def _with_owner(self, owner: Owner, **fields: object) -> World:
        return self.world.changed(self.number, owners=(*self.others[0], owner, *self.others[1]), **fields)

    def _recover(self) -> Steps:
        """Read the partition history, wait for the parent's split, and restore the memory from the logs."""
        owner, rules, first_count = self.owner, self.rules, self.scenario.counts[0]
        broker_lags = owner.phase == "stale"
        lineage = PartitionLineage((first_count,)) if broker_lags else self.world.lineage
        if rules.checks_claim and broker_lags and self.partition.claim > owner.partition_count:
            yield f"{self.name} notices that its broker lags", self._without_owner()
            return
        count = count_of(lineage, self.number) if rules.count_from_lineage else owner.partition_count
        if count is None:
            if rules.child_waits:
                return
            count = owner.partition_count
        offset = max([outcome.offset + 1 for outcome in self.partition.outcomes], default=0)
        offset = max(
            [offset, *(split.commands for split in lineage.splits if split.partition == self.number)]
        )
        imports = rules.imports_entries and lineage.phase(self.number, owner.partition_count) == "adopt"
        after = owner._replace(
            phase="adopt" if imports else "loop",
            effective_count=count,
            position=offset,
            memory=recover_memory(rules, self.world, lineage, self.number),
        )
        claim = self.partition.claim if broker_lags else max(self.partition.claim, count)
        yield f"{self.name} recovers, count {count}, at {offset}", self._with_owner(after, claim=claim)

    def _import_entry(self) -> tuple[str, World]:
        """Write the inherited entries to the child's deferred topic, one at a time, and then activate the child."""
        entries: Entries = {}
        for key, entry in self.memory.entries:
            state = "waiting, cancelled" if entry.state.endswith("cancelled") else "waiting"
            entries[key] = (
                entry._replace(state=state, resubmitted_at=None) if self.rules.imports_as_waiting else entry
            )
        next_entry = next((item for item in entries.items() if item not in self.partition.deferred), None)
        if next_entry is not None:
            deferred = (*self.partition.deferred, next_entry)
            return f"{self.name} imports an entry", self._with_owner(self.owner, deferred=deferred)
        memory = self.memory._replace(entries=tuple(sorted(entries.items())))
        after = self._with_owner(self.owner._replace(phase="loop", memory=memory))
        lineage = self.world.lineage.with_record(Begun(self.number))
        return f"{self.name} is activated", after._replace(lineage=lineage)

    def _next_count(self) -> int | None:
        """Return the partition count after the owner's next split, or None if it has none to do."""
        lineage, owner = self.world.lineage, self.owner
        if self.rules.one_repartitioning_at_a_time and self.rules.count_from_lineage:
            return lineage.next_count(self.number, owner.partition_count)
        return owner.partition_count if owner.partition_count > owner.effective_count else None

    def _drain(self) -> Steps:
        """Decide the commands sent with the old count before the repartitioning, then split."""
        owner, partition, next_count = self.owner, self.partition, self._next_count()
        if next_count is None:
            return
        if owner.drain_end is None:
            end = len(partition.commands) if self.rules.parent_drains else owner.position
            yield (
                f"{self.name} reads the end of its commands",
                self._with_owner(owner._replace(drain_end=end)),
            )
        elif owner.position >= owner.drain_end:
            ends = len(partition.events), len(partition.outcomes), len(partition.deferred)
            split = Split(self.number, owner.effective_count, next_count, owner.position, *ends, 0)
            lineage = self._with_split(split)
            remaining_memory = without_moved_keys(self.memory, self.number, next_count)
            owner = owner._replace(effective_count=next_count, drain_end=None, memory=remaining_memory)
            world = self._with_owner(owner, claim=next_count)._replace(lineage=lineage)
            yield f"{self.name} splits at {owner.position}", world

    def _with_split(self, split: Split) -> PartitionLineage:
        lineage = self.world.lineage
        if self.rules.one_repartitioning_at_a_time:
            return lineage.with_record(split)
        return PartitionLineage(lineage.counts, (*lineage.splits, split), lineage.activated)

    def _resubmit(self) -> Steps:
        """Resubmit a deferred command, which may be due at any time."""
        next_count, partition = self._next_count(), self.partition
        for key, entry in self.memory.entries:
            if entry.resubmitted_at is not None:
                continue
            if (
                self.rules.resubmission_pauses
                and next_count is not None
                and entry.key % next_count != self.number
            ):
                continue
            offset = len(partition.commands)
            resubmitted = entry._replace(
                state=entry.state.replace("waiting", "resubmitted"), resubmitted_at=(self.number, offset)
            )
            memory = self._with_entries(((key, resubmitted),))
            world = self._with_owner(
                self.owner._replace(memory=memory),
                commands=(*partition.commands, Command("resubmission", entry.id, entry.key)),
                deferred=(*partition.deferred, (key, resubmitted)),
            )
            yield f"{self.name} resubmits {entry.id} @{offset}", world

    def _with_entries(self, changes: tuple[tuple[str, object], ...]) -> Memory:
        entries: Entries = dict(self.memory.entries)
        for key, entry in changes:
            put(entries, key, entry)  # type: ignore[arg-type]
        return self.memory._replace(entries=tuple(sorted(entries.items())))

    def _decide(self) -> Steps:
        """Decide the next committed command."""
        owner, partition, offset = self.owner, self.partition, self.owner.position
        while offset < len(partition.commands) and getattr(partition.commands[offset], "owner", 0) is None:
            offset += 1
        command = partition.commands[offset] if offset < len(partition.commands) else None
        if not isinstance(command, Command):
            return
        decision = decide(
            self.rules,
            self.world.lineage,
            self.number,
            owner.effective_count,
            offset,
            command,
            self.memory,
            self.scenario.fails,
        )
        outcome = outcome_of(offset, command, decision)
        if decision.forward_to is not None:
            yield self._forward(command, decision.forward_to, outcome)
            return
        memory = self._with_entries(decision.entry_changes)
        changes: dict[str, object] = {
            "outcomes": (*partition.outcomes, outcome),
            "deferred": (*partition.deferred, *decision.entry_changes),
        }
        if decision.version:
            event = Event(command.key, decision.version, command.id, (self.number, offset))
            changes["events"] = (*partition.events, event)
            states = {**dict(memory.states), command.key: decision.version}
            memory = memory._replace(states=tuple(sorted(states.items())))
        if outcome.id and decision.status in ("accepted", "rejected"):
            ids = {**dict(memory.ids), (command.key, command.id): (self.number, offset)}
            memory = memory._replace(ids=tuple(sorted(ids.items())))
        after = self._with_owner(owner._replace(position=offset + 1, memory=memory), **changes)
        yield f"{self.name} decides {command.id}@{offset}: {decision.status} v{decision.version}", after

    def _forward(self, command: Command, to: int, outcome: Outcome) -> tuple[str, World]:
        commands = (*self.world.partitions[to].commands, Forwarded((self.number, self.owner.epoch), command))
        world = self._with_owner(self.owner._replace(open_outcome=outcome)).changed(to, commands=commands)
        return f"{self.name} forwards {command.id} to {to}@{len(commands) - 1}", world

    def _commit(self, outcome: Outcome) -> tuple[str, World]:
        owner = self.owner._replace(position=outcome.offset + 1, open_outcome=None)
        world = self._with_owner(owner, outcomes=(*self.partition.outcomes, outcome))
        return f"{self.name} commits", end_transaction(world, (self.number, owner.epoch), commits=True)
