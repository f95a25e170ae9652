"""All possible next steps: an owner, a worker or the broker continues, or a fault happens."""

from itertools import combinations

from tests.model.sharing import broker
from tests.model.sharing.owner import Turn
from tests.model.sharing.worker import next_id, restart, worker_steps
from tests.model.sharing.world import Owner, Rules, Scenario, Steps, World


def steps(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Yield every step that the world may take."""
    for number, worker in enumerate(world.workers):
        for partition in range(len(worker.owners)):
            yield from Turn(scenario, rules, world, number, partition).steps()
        yield from worker_steps(rules, world, number)
    yield from broker.steps(scenario, rules, world)
    if world.faults:
        less = world._replace(faults=world.faults - 1)
        for label, after, broken_promise in faults(scenario, rules, less):
            yield f"fault: {label}", after, broken_promise


def faults(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Yield the faults that are possible now."""
    if scenario.crashes:
        for number, worker in enumerate(world.workers):
            if worker.starts and worker.step == "ready":
                owners = tuple(
                    owner if owner.step == "gone" else Owner("idle", max(1, owner.tries))
                    for owner in worker.owners
                )
                crashed = worker._replace(
                    step="ready" if worker.is_old else "new",
                    id=next_id(rules, worker),
                    owners=owners,
                    starts=worker.starts - 1,
                )
                label = f"worker {number} crashes and is started again"
                yield label, world.with_worker(number, crashed), ""
    if scenario.loses_responses:
        yield from _lost_responses(rules, world)
    if scenario.loses_markers:
        yield from _lost_markers(rules, world)


def _lost_responses(rules: Rules, world: World) -> Steps:
    """Let a sender give up waiting for the result of its commit."""
    for id, producer in world.producers:
        if producer.transaction is None or producer.transaction.stage != "sent" or producer.holder is None:
            continue
        number = producer.holder
        label = f"worker {number} gets no response to its commit with {id}"
        after = world
        if rules.after_doubt == "committed":
            for share in producer.transaction.shares:
                owner = world.workers[number].owners[share.partition]
                if share.offset is not None and owner.step == "loop":
                    owner = owner._replace(position=share.commit.position, end=share.offset + 1)
                    after = after.with_owner(number, share.partition, owner)
        yield label, _drop_producer(rules, after, number, id), ""


def _lost_markers(rules: Rules, world: World) -> Steps:
    """Lose markers of a commit or of an abort.

    The sender of a commit notices that a broker was unreachable, and begins no further transaction.
    """
    for id, producer in world.producers:
        transaction = producer.transaction
        if transaction is None:
            continue
        if transaction.stage != "final":
            for log in sorted({log for share in transaction.shares for log in broker.written_logs(share)}):
                label = f"the transaction of {id} times out, and a marker is lost in {broker.log_name(log)}"
                yield label, broker.lose_abort_marker(world, id, log), ""
            continue
        for lost in _subsets(transaction.missing_markers):
            after = world
            for log in lost:
                after = broker.write_marker(after, id, log, is_lost=True)
            if producer.holder is not None:
                after = _drop_producer(rules, after, producer.holder, id)
            yield f"markers of {id} are lost in {', '.join(map(broker.log_name, lost))}", after, ""


def _subsets(logs: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [subset for count in range(1, len(logs) + 1) for subset in combinations(logs, count)]


def _drop_producer(rules: Rules, world: World, number: int, id: str) -> World:
    """Let the worker drop its producer of this id."""
    worker = world.workers[number]
    if id == worker.id:
        return restart(world, rules, number) if worker.step == "ready" else world
    for partition, owner in enumerate(worker.owners):
        if owner.fenced_id == id or (owner.step != "gone" and (owner.is_alone or worker.is_old)):
            world = world.with_owner(number, partition, Owner("idle", owner.tries))
    return world
