"""All possible next steps of a world, each with a label."""

from cqrs_cli.keyspace.records import Grow
from tests.model.growing.turn import Steps, Turn, end_transaction
from tests.model.growing.world import Owner, Partition, Rules, Scenario, Sending, World

#: Prefixes of the labels of steps that need not happen. Without these steps, all commands must be decided in the end.
FAULTS = ("fault:", "run:")


def steps(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Yield every step that the world may take."""
    yield from _operator_steps(scenario, world)
    yield from _client_steps(world)
    for number, partition in enumerate(world.partitions):
        yield from _broker_steps(world, number, partition)
        yield from _start_steps(scenario, world, number, partition)
        for owner_index, owner in enumerate(partition.owners):
            yield from Turn(scenario, rules, world, number, owner_index, owner).steps()


def _operator_steps(scenario: Scenario, world: World) -> Steps:
    """Write the request into the lineage topic, and add the partitions."""
    if world.remaining_faults.repartitionings:
        next_count = scenario.counts[scenario.counts.index(world.partition_count) + 1]
        lineage = world.lineage.with_record(Grow(world.partition_count, next_count))
        remaining_faults = world.remaining_faults._replace(
            repartitionings=world.remaining_faults.repartitionings - 1
        )
        yield (
            f"topics: {next_count}",
            world._replace(lineage=lineage, partition_count=next_count, remaining_faults=remaining_faults),
        )


def _client_steps(world: World) -> Steps:
    for client_number, client in enumerate(world.clients):
        clients = list(world.clients)
        if client.known_count != world.partition_count:
            clients[client_number] = client._replace(known_count=world.partition_count)
            yield f"fault: client {client_number} refreshes", world._replace(clients=tuple(clients))
        if not client.unsent:
            continue
        command = client.unsent[0]._replace(
            sending=Sending(client_number, client.known_count, world.partition_count, client.sent_count)
        )
        clients[client_number] = client._replace(unsent=client.unsent[1:], sent_count=client.sent_count + 1)
        number = command.key % client.known_count
        commands = (*world.partitions[number].commands, command)
        next_world = world._replace(clients=tuple(clients)).changed(number, commands=commands)
        yield f"client {client_number} sends {command.id} to {number}@{len(commands) - 1}", next_world


def _broker_steps(world: World, number: int, partition: Partition) -> Steps:
    remaining_faults = world.remaining_faults
    if remaining_faults.compactions:
        last_offsets = {
            record[0]: offset for offset, record in enumerate(partition.deferred) if record is not None
        }
        kept_offsets = {
            offset
            for offset in last_offsets.values()
            if (record := partition.deferred[offset]) is not None and record[1] is not None
        }
        deferred = tuple(
            record if offset in kept_offsets else None for offset, record in enumerate(partition.deferred)
        )
        if deferred != partition.deferred:
            next_world = world._replace(
                remaining_faults=remaining_faults._replace(compactions=remaining_faults.compactions - 1)
            )
            yield f"fault: compaction of {number}", next_world.changed(number, deferred=deferred)
    if remaining_faults.deletions and any(record.visible for record in partition.outcomes):
        outcomes = tuple(record._replace(visible=False) for record in partition.outcomes)
        next_world = world._replace(
            remaining_faults=remaining_faults._replace(deletions=remaining_faults.deletions - 1)
        )
        yield f"fault: outcomes of {number} are deleted", next_world.changed(number, outcomes=outcomes)


def _start_steps(scenario: Scenario, world: World, number: int, partition: Partition) -> Steps:
    """Let a run's owner fence: the previous owner's transaction is aborted, and it can write no more."""
    if not world.remaining_faults.starts[number] or number >= world.partition_count:
        return
    starts = tuple(count - (index == number) for index, count in enumerate(world.remaining_faults.starts))
    count_index = scenario.counts.index(world.partition_count)
    for lag in (0, 1) if world.remaining_faults.stale and count_index else (0,):
        partition_count = scenario.counts[count_index - lag]
        if number >= partition_count:
            continue
        remaining_faults = world.remaining_faults._replace(
            starts=starts, stale=world.remaining_faults.stale - lag
        )
        owner = Owner(partition.epoch + 1, partition_count, "stale" if lag else "new")
        fenced = end_transaction(
            world._replace(remaining_faults=remaining_faults), (number, partition.epoch), commits=False
        )
        next_world = fenced.changed(number, epoch=owner.epoch, owners=(owner,))
        yield f"run: {number}.{owner.epoch} fences" + (", its broker lags" if lag else ""), next_world
