"""One owner's next steps. Each method is one of its steps."""

from collections.abc import Iterator

from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.repartitioning import Begun, Split
from tests.model.growing.deciding import Entries, count_of, decide, outcome_of, put, recovered, remaining
from tests.model.growing.world import Command, Event, Forwarded, Memory, Open, Owner, Rules, Scenario, World

Steps = Iterator[tuple[str, World]]


def ended(world: World, owner: tuple[int, int], keep: bool) -> World:
    """Return the world after the owner's open transaction is committed or aborted."""
    for number, part in enumerate(world.partitions):
        if any(isinstance(one, Forwarded) and one.owner == owner for one in part.commands):
            commands = tuple(_ended(one, owner, keep) for one in part.commands)
            world = world.changed(number, commands=commands)
    return world


def _ended(one: Command | Forwarded, owner: tuple[int, int], keep: bool) -> Command | Forwarded:
    if not isinstance(one, Forwarded) or one.owner != owner:
        return one
    return one.command if keep else one._replace(owner=None)


class Turn:
    """One owner of a world, and its next steps."""

    def __init__(
        self, scenario: Scenario, rules: Rules, world: World, number: int, place: int, owner: Owner
    ) -> None:
        self.scenario, self.rules, self.world = scenario, rules, world
        self.number, self.owner, self.part = number, owner, world.partitions[number]
        self.others = (self.part.owners[:place], self.part.owners[place + 1 :])
        self.name = f"{number}.{owner.epoch}"
        self.memory = owner.memory

    def steps(self) -> Steps:
        if (crashes := self.world.left.crashes) > 0:
            left = self.world.left._replace(crashes=crashes - 1)
            yield f"fault: {self.name} dies", self._gone()._replace(left=left)
        if self.part.epoch != self.owner.epoch:
            yield f"{self.name} is fenced", ended(self._gone(), (self.number, self.owner.epoch), keep=False)
        elif self.owner.phase in ("new", "stale"):
            yield from self._recover()
        elif self.owner.phase == "adopt":
            yield self._adopt()
        elif self.owner.open is not None:
            yield self._commit(self.owner.open)
        else:
            yield from self._settle()
            yield from self._say_again()
            yield from self._decide()

    def _gone(self) -> World:
        return self.world.changed(self.number, owners=(*self.others[0], *self.others[1]))

    def _be(self, owner: Owner, **what: object) -> World:
        return self.world.changed(self.number, owners=(*self.others[0], owner, *self.others[1]), **what)

    def _recover(self) -> Steps:
        """Read the partition history, and wait for the parent's split."""
        owner, rules, first = self.owner, self.rules, self.scenario.counts[0]
        is_behind = owner.phase == "stale"
        seen = PartitionLineage((first,)) if is_behind else self.world.lineage
        if rules.claim and is_behind and self.part.claim > owner.there:
            yield f"{self.name} sees that its broker is behind", self._gone()
            return
        count = count_of(seen, self.number) if rules.count_from_lineage else owner.there
        if count is None:
            if rules.wait:
                return
            count = owner.there
        at = max([one.offset + 1 for one in self.part.outcomes], default=0)
        at = max([at, *(one.commands for one in seen.splits if one.partition == self.number)])
        adopts = rules.adopt and seen.phase(self.number, owner.there) == "adopt"
        after = owner._replace(
            phase="adopt" if adopts else "loop",
            judging=count,
            position=at,
            memory=recovered(rules, self.world, seen, self.number),
        )
        claim = self.part.claim if is_behind else max(self.part.claim, count)
        yield f"{self.name} recovers, count {count}, at {at}", self._be(after, claim=claim)

    def _adopt(self) -> tuple[str, World]:
        """Write the imported entries into the own deferred topic, one at a time, and then activate the partition."""
        entries: Entries = {}
        for key, entry in self.memory.entries:
            state = "parked, cancelled" if entry.state.endswith("cancelled") else "parked"
            entries[key] = entry._replace(state=state, said=None) if self.rules.park_inherited else entry
        missing = next((one for one in entries.items() if one not in self.part.deferred), None)
        if missing is not None:
            deferred = (*self.part.deferred, missing)
            return f"{self.name} takes an entry over", self._be(self.owner, deferred=deferred)
        memory = self.memory._replace(entries=tuple(sorted(entries.items())))
        after = self._be(self.owner._replace(phase="loop", memory=memory))
        begun = self.world.lineage.with_record(Begun(self.number))
        return f"{self.name} has begun", after._replace(lineage=begun)

    def _next_count(self) -> int | None:
        """Return the count to split to."""
        lineage, owner = self.world.lineage, self.owner
        if self.rules.one_growth_at_a_time and self.rules.count_from_lineage:
            return lineage.next_count(self.number, owner.there)
        return owner.there if owner.there > owner.judging else None

    def _settle(self) -> Steps:
        """Decide the commands sent with the old count before the repartitioning, then split."""
        owner, part, after = self.owner, self.part, self._next_count()
        if after is None:
            return
        if owner.settled_at is None:
            end = len(part.commands) if self.rules.settle else owner.position
            yield f"{self.name} notes the log's end", self._be(owner._replace(settled_at=end))
        elif owner.position >= owner.settled_at:
            ends = len(part.events), len(part.outcomes), len(part.deferred)
            split = Split(self.number, owner.judging, after, owner.position, *ends, 0)
            lineage = self._with_split(split)
            left = remaining(self.memory, self.number, after)
            owner = owner._replace(judging=after, settled_at=None, memory=left)
            world = self._be(owner, claim=after)._replace(lineage=lineage)
            yield f"{self.name} splits at {owner.position}", world

    def _with_split(self, split: Split) -> PartitionLineage:
        lineage = self.world.lineage
        if self.rules.one_growth_at_a_time:
            return lineage.with_record(split)
        return PartitionLineage(lineage.counts, (*lineage.splits, split), lineage.activated)

    def _say_again(self) -> Steps:
        """Resubmit a deferred command, which may be due at any time."""
        after, part = self._next_count(), self.part
        for key, entry in self.memory.entries:
            if entry.said is not None:
                continue
            if self.rules.silence and after is not None and entry.key % after != self.number:
                continue
            at = len(part.commands)
            said = entry._replace(state=entry.state.replace("parked", "said"), said=(self.number, at))
            memory = self._changed(((key, said),))
            world = self._be(
                self.owner._replace(memory=memory),
                commands=(*part.commands, Command("again", entry.id, entry.key)),
                deferred=(*part.deferred, (key, said)),
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
        done = decide(
            self.rules,
            self.world.lineage,
            self.number,
            owner.judging,
            at,
            command,
            self.memory,
            self.scenario.fails,
        )
        outcome = outcome_of(at, command, done)
        if done.forward is not None:
            yield self._forward(command, done.forward, Open(at, outcome))
            return
        memory = self._changed(done.changes)
        what: dict[str, object] = {
            "outcomes": (*part.outcomes, outcome),
            "deferred": (*part.deferred, *done.changes),
        }
        if done.version:
            event = Event(command.key, done.version, command.id, (self.number, at))
            what["events"] = (*part.events, event)
            states = {**dict(memory.states), command.key: done.version}
            memory = memory._replace(states=tuple(sorted(states.items())))
        if outcome.id and done.status in ("accepted", "rejected"):
            ids = {**dict(memory.ids), (command.key, command.id): (self.number, at)}
            memory = memory._replace(ids=tuple(sorted(ids.items())))
        after = self._be(owner._replace(position=at + 1, memory=memory), **what)
        yield f"{self.name} decides {command.id}@{at}: {done.status} v{done.version}", after

    def _forward(self, command: Command, to: int, opened: Open) -> tuple[str, World]:
        commands = (*self.world.partitions[to].commands, Forwarded((self.number, self.owner.epoch), command))
        world = self._be(self.owner._replace(open=opened)).changed(to, commands=commands)
        return f"{self.name} forwards {command.id} to {to}@{len(commands) - 1}", world

    def _commit(self, opened: Open) -> tuple[str, World]:
        owner = self.owner._replace(position=opened.outcome.offset + 1, open=None)
        world = self._be(owner, outcomes=(*self.part.outcomes, opened.outcome))
        return f"{self.name} commits", ended(world, (self.number, owner.epoch), keep=True)
