"""All possible next steps of a world, each with a label."""

from cqrs_cli.core.messages.repartitioning import Grow
from tests.model.growing.turn import Steps, Turn, end_transaction
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
        for owner_index, owner in enumerate(part.owners):
            yield from Turn(scenario, rules, world, number, owner_index, owner).steps()


def _of_operator(scenario: Scenario, world: World) -> Steps:
    """Write the request into the lineage topic, and add the partitions."""
    if world.remaining_faults.repartitionings:
        after = scenario.counts[scenario.counts.index(world.partition_count) + 1]
        lineage = world.lineage.with_record(Grow(world.partition_count, after))
        remaining_faults = world.remaining_faults._replace(
            repartitionings=world.remaining_faults.repartitionings - 1
        )
        yield (
            f"topics: {after}",
            world._replace(lineage=lineage, partition_count=after, remaining_faults=remaining_faults),
        )


def _of_clients(world: World) -> Steps:
    for client_number, client in enumerate(world.clients):
        clients = list(world.clients)
        if client.known_count != world.partition_count:
            clients[client_number] = client._replace(known_count=world.partition_count)
            yield f"fault: client {client_number} refreshes", world._replace(clients=tuple(clients))
        if not client.unsent:
            continue
        command = client.unsent[0]._replace(
            sent=(client_number, client.known_count, world.partition_count, client.number)
        )
        clients[client_number] = client._replace(unsent=client.unsent[1:], number=client.number + 1)
        number = command.key % client.known_count
        commands = (*world.partitions[number].commands, command)
        after = world._replace(clients=tuple(clients)).changed(number, commands=commands)
        yield f"client {client_number} sends {command.id} to {number}@{len(commands) - 1}", after


def _of_broker(world: World, number: int, part: Partition) -> Steps:
    remaining_faults = world.remaining_faults
    if remaining_faults.compactions:
        last_offsets = {record[0]: at for at, record in enumerate(part.deferred) if record is not None}
        kept_offsets = {
            at
            for at in last_offsets.values()
            if (record := part.deferred[at]) is not None and record[1] is not None
        }
        deferred = tuple(record if at in kept_offsets else None for at, record in enumerate(part.deferred))
        if deferred != part.deferred:
            after = world._replace(
                remaining_faults=remaining_faults._replace(compactions=remaining_faults.compactions - 1)
            )
            yield f"fault: compaction of {number}", after.changed(number, deferred=deferred)
    if remaining_faults.deletions and any(record.visible for record in part.outcomes):
        outcomes = tuple(record._replace(visible=False) for record in part.outcomes)
        after = world._replace(
            remaining_faults=remaining_faults._replace(deletions=remaining_faults.deletions - 1)
        )
        yield f"fault: outcomes of {number} are deleted", after.changed(number, outcomes=outcomes)


def _of_runs(scenario: Scenario, world: World, number: int, part: Partition) -> Steps:
    """Let a run's owner fence: the previous owner's transaction is aborted, and it can write no more."""
    if not world.remaining_faults.starts[number] or number >= world.partition_count:
        return
    starts = tuple(count - (at == number) for at, count in enumerate(world.remaining_faults.starts))
    count_index = scenario.counts.index(world.partition_count)
    for lag in (0, 1) if world.remaining_faults.stale and count_index else (0,):
        partition_count = scenario.counts[count_index - lag]
        if number >= partition_count:
            continue
        remaining_faults = world.remaining_faults._replace(
            starts=starts, stale=world.remaining_faults.stale - lag
        )
        owner = Owner(part.epoch + 1, partition_count, "stale" if lag else "new")
        fenced = end_transaction(
            world._replace(remaining_faults=remaining_faults), (number, part.epoch), keep=False
        )
        after = fenced.changed(number, epoch=owner.epoch, owners=(owner,))
        yield f"run: {number}.{owner.epoch} fences" + (", its broker is behind" if lag else ""), after
