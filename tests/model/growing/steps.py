"""All possible next steps of a world, each with a label."""

from cqrs_cli.core.messages.repartitioning import Grow
from tests.model.growing.turn import Steps, Turn, ended
from tests.model.growing.world import Owner, Partition, Rules, Scenario, World

#: Prefixes of the labels of steps that need not happen. Without these steps, all commands must be decided in the end.
FAULTS = ("fault:", "run:")


def steps(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Yield every step that the world may take."""
    yield from _of_operator(scenario, world)
    yield from _of_clients(world)
    for number, part in enumerate(world.partitions):
        yield from _of_broker(world, number, part)
        yield from _of_runs(scenario, world, number, part)
        for place, owner in enumerate(part.owners):
            yield from Turn(scenario, rules, world, number, place, owner).steps()


def _of_operator(scenario: Scenario, world: World) -> Steps:
    """Write the request into the lineage topic, and add the partitions."""
    if world.left.grows:
        after = scenario.counts[scenario.counts.index(world.there) + 1]
        lineage = world.lineage.with_record(Grow(world.there, after))
        left = world.left._replace(grows=world.left.grows - 1)
        yield f"topics: {after}", world._replace(lineage=lineage, there=after, left=left)


def _of_clients(world: World) -> Steps:
    for who, client in enumerate(world.clients):
        clients = list(world.clients)
        if client.knows != world.there:
            clients[who] = client._replace(knows=world.there)
            yield f"fault: client {who} refreshes", world._replace(clients=tuple(clients))
        if not client.sends:
            continue
        command = client.sends[0]._replace(sent=(who, client.knows, world.there, client.number))
        clients[who] = client._replace(sends=client.sends[1:], number=client.number + 1)
        number = command.key % client.knows
        commands = (*world.partitions[number].commands, command)
        after = world._replace(clients=tuple(clients)).changed(number, commands=commands)
        yield f"client {who} sends {command.id} to {number}@{len(commands) - 1}", after


def _of_broker(world: World, number: int, part: Partition) -> Steps:
    left = world.left
    if left.compactions:
        last = {record[0]: at for at, record in enumerate(part.deferred) if record is not None}
        kept = {at for at in last.values() if (one := part.deferred[at]) is not None and one[1] is not None}
        deferred = tuple(one if at in kept else None for at, one in enumerate(part.deferred))
        if deferred != part.deferred:
            after = world._replace(left=left._replace(compactions=left.compactions - 1))
            yield f"fault: compaction of {number}", after.changed(number, deferred=deferred)
    if left.deletions and any(one.visible for one in part.outcomes):
        outcomes = tuple(one._replace(visible=False) for one in part.outcomes)
        after = world._replace(left=left._replace(deletions=left.deletions - 1))
        yield f"fault: outcomes of {number} are deleted", after.changed(number, outcomes=outcomes)


def _of_runs(scenario: Scenario, world: World, number: int, part: Partition) -> Steps:
    """Let a run's owner fence: the previous owner's transaction is aborted, and it can write no more."""
    if not world.left.starts[number] or number >= world.there:
        return
    starts = tuple(count - (at == number) for at, count in enumerate(world.left.starts))
    place = scenario.counts.index(world.there)
    for behind in (0, 1) if world.left.stale and place else (0,):
        there = scenario.counts[place - behind]
        if number >= there:
            continue
        left = world.left._replace(starts=starts, stale=world.left.stale - behind)
        owner = Owner(part.epoch + 1, there, "stale" if behind else "new")
        fenced = ended(world._replace(left=left), (number, part.epoch), keep=False)
        after = fenced.changed(number, epoch=owner.epoch, owners=(owner,))
        yield f"run: {number}.{owner.epoch} fences" + (", its broker is behind" if behind else ""), after
