"""The steps of a worker: it starts, ends the transaction of its owners, and starts again after an error."""

from tests.model.sharing import broker
from tests.model.sharing.world import Owner, Rules, Step, Steps, Transaction, Worker, World


def worker_steps(rules: Rules, world: World, number: int) -> Steps:
    """Let a worker call `init_transactions` with its own id, notice that it is fenced, or end its transaction."""
    worker, name = world.workers[number], f"worker {number}"
    if worker.step == "new" and not broker.is_busy(world.producer(worker.id)):
        after = broker.fence(world, worker.id, number)
        yield f"{name} starts with {worker.id}", after.with_worker(number, worker._replace(step="ready")), ""
    if worker.step != "ready":
        return
    if worker.id and world.producer(worker.id).holder != number:
        yield f"{name} finds that {worker.id} is fenced", restart(world, rules, number), ""
    for id, producer in world.producers:
        transaction = producer.transaction
        if producer.holder == number and transaction is not None and transaction.stage == "open":
            yield _end_transaction(rules, world, number, id, transaction)


def _end_transaction(rules: Rules, world: World, number: int, id: str, transaction: Transaction) -> Step:
    """Commit the open transaction, or abort it if an outcome did not get its expected offset."""
    name, owners = f"worker {number}", world.workers[number].owners
    misplaced = [
        share.partition for share in transaction.shares if share.offset != owners[share.partition].end
    ]
    if not misplaced or not rules.checks_offsets:
        return f"{name} commits with {id}", broker.send_end(world, id, transaction), ""
    after = broker.abort(world, id)
    for share in transaction.shares:
        owner = owners[share.partition]
        is_misplaced = share.partition in misplaced
        after = after.with_owner(
            number,
            share.partition,
            Owner("idle", owner.tries) if is_misplaced else owner._replace(step="end"),
        )
    return f"{name} finds records at other offsets and aborts", after, ""


def restart(world: World, rules: Rules, number: int) -> World:
    """Drop the worker's producer. Its owners wait until the worker has called `init_transactions` again."""
    worker = world.workers[number]
    if not worker.starts:
        return stop(world, number)
    owners = tuple(_after_restart(rules, worker, owner) for owner in worker.owners)
    restarted = worker._replace(
        step="new", id=next_id(rules, worker), starts=worker.starts - 1, owners=owners
    )
    return world.with_worker(number, restarted)


def next_id(rules: Rules, worker: Worker) -> str:
    """Return the id with which the worker starts again."""
    return f"{worker.id}'" if rules.new_id_for_restart else worker.id


def _after_restart(rules: Rules, worker: Worker, owner: Owner) -> Owner:
    """Return the owner, which keeps no knowledge that depends on the dropped producer."""
    depends_on_producer = owner.step in ("end", "fold", "loop", "leaving") and not owner.is_alone
    uses_producer = owner.step in ("read", "claim", "claiming") and owner.fenced_id == worker.id
    if not depends_on_producer and not uses_producer:
        return owner
    if rules.new_id_for_restart:
        return Owner("idle", owner.tries)
    if owner.step == "loop" and rules.after_doubt != "reads the log":
        return owner
    reread = Owner("read", owner.tries, worker.id, n=owner.n)
    return reread if rules.rereads_claims else reread._replace(step="end", fenced_id="")


def stop(world: World, number: int) -> World:
    """End the worker."""
    worker = world.workers[number]
    return world.with_worker(number, worker._replace(step="gone", owners=(Owner(),) * len(worker.owners)))
