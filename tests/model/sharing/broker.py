"""The brokers' part: transactional ids, and transactions that may write to several partitions."""

from tests.model.sharing.world import (
    GROUP,
    KEYS,
    Claim,
    Commit,
    Key,
    Owner,
    Partition,
    Producer,
    Rules,
    Scenario,
    Share,
    Slot,
    Status,
    Steps,
    Transaction,
    World,
)


def is_busy(producer: Producer) -> bool:
    """Return True while a decided commit is not visible everywhere: until then, the coordinator refuses a fence."""
    return producer.transaction is not None and producer.transaction.stage == "final"


def fence(world: World, id: str, number: int | None) -> World:
    """Call `init_transactions` as this worker, or let the transaction time out (None): it is aborted."""
    producer = world.producer(id)
    assert not is_busy(producer)
    return _abort(world, producer.transaction).with_producer(id, Producer(number))


def abort(world: World, id: str) -> World:
    """Abort the open transaction of this id, as its holder."""
    producer = world.producer(id)
    return _abort(world, producer.transaction).with_producer(id, Producer(producer.holder))


def _abort(world: World, transaction: Transaction | None, lost_marker: int | None = None) -> World:
    for share in transaction.shares if transaction else ():
        for log in written_logs(share):
            world = _end_record(world, share, log, "hidden" if log == lost_marker else "aborted")
    return world


def lose_abort_marker(world: World, id: str, log: int) -> World:
    """Abort the transaction of this id by timeout, but lose the marker in one log."""
    return _abort(world, world.producer(id).transaction, log).with_producer(id, Producer())


def written_logs(share: Share) -> list[int]:
    """Return the logs to which this share has written a record."""
    if share.offset is None:
        return []
    return [share.partition] if share.key_offset is None else [share.partition, KEYS]


def _end_record(world: World, share: Share, log: int, status: Status) -> World:
    """Change the status of the share's record in a log."""
    if log == KEYS:
        assert share.key_offset is not None
        key = world.keys[share.key_offset]
        keys = list(world.keys)
        keys[share.key_offset] = key._replace(slot=key.slot._replace(status=status))
        return world._replace(keys=tuple(keys))
    assert share.offset is not None
    partition = world.partitions[share.partition]
    slots = list(partition.log)
    slots[share.offset] = slots[share.offset]._replace(status=status)
    return world.with_partition(share.partition, partition._replace(log=tuple(slots)))


def produce(world: World, id: str, number: int, command: int, claim: Claim, has_key: bool) -> World:
    """Append the outcome of a command to the open transaction of this id, with the position after the command."""
    producer, partition, slot = world.producer(id), world.partitions[number], Slot(command, "open", id)
    shares = producer.transaction.shares if producer.transaction else ()
    key_offset = len(world.keys) if has_key else None
    share = Share(number, Commit(command + 1, claim), len(partition.log), key_offset)
    after = world.with_partition(number, partition._replace(log=(*partition.log, slot)))
    if has_key:
        after = after._replace(keys=(*world.keys, Key(number, slot)))
    return after.with_producer(id, producer._replace(transaction=Transaction((*shares, share))))


def send_end(world: World, id: str, transaction: Transaction) -> World:
    """Send the end request of a transaction."""
    logs = {GROUP, *(log for share in transaction.shares for log in written_logs(share))}
    sent = transaction._replace(stage="sent", missing_markers=tuple(sorted(logs)))
    return world.with_producer(id, world.producer(id)._replace(transaction=sent))


def can_read_commit(world: World, number: int) -> bool:
    """Return True unless an offset commit of the partition is pending: a reader of committed offsets waits for it."""
    return not world.partitions[number].hidden_commits and not any(
        producer.transaction
        and producer.transaction.stage != "open"
        and GROUP in producer.transaction.missing_markers
        and producer.transaction.share_of(number)
        for _, producer in world.producers
    )


def steps(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Let end requests arrive, and write markers."""
    for id, producer in world.producers:
        transaction = producer.transaction
        if transaction is None or transaction.stage == "open":
            continue
        if transaction.stage == "sent":
            yield _arrival(scenario, rules, world, id, producer)
            continue
        for target in transaction.missing_markers:
            label = f"broker: the commit of {id} is visible in {log_name(target)}"
            yield label, write_marker(world, id, target), ""


def log_name(log: int) -> str:
    """Return the name of a log in labels."""
    return {GROUP: "the group", KEYS: "the keys"}.get(log, f"log {log}")


def _arrival(
    scenario: Scenario, rules: Rules, world: World, id: str, producer: Producer
) -> tuple[str, World, str]:
    """Let the end request arrive. The commit is final, and its sender learns that."""
    transaction = producer.transaction
    assert transaction is not None
    after = world.with_producer(id, producer._replace(transaction=transaction._replace(stage="final")))
    if (number := producer.holder) is not None:
        worker = world.workers[number]
        for share in transaction.shares:
            reads_back = rules.reads_claim_back and not worker.is_old
            owner = _owner_after_commit(worker.owners[share.partition], share, reads_back, worker.retires)
            after = after.with_owner(number, share.partition, owner)
    broken_promise = next(
        filter(None, (_broken_promise(scenario, world, share) for share in transaction.shares)), ""
    )
    if not scenario.late_markers:
        for target in transaction.missing_markers:
            after = write_marker(after, id, target)
    return f"broker: commits a transaction of {id}", after, broken_promise


def _owner_after_commit(owner: Owner, share: Share, reads_back: bool, retires: bool) -> Owner:
    """Return the owner after the report that its commit succeeded."""
    claim = share.commit.claim
    assert claim is not None
    if owner.step == "claiming" and retires:
        return Owner()
    if owner.step == "claiming" and reads_back:
        return owner._replace(step="read", n=claim.n, fenced_id=claim.writer, read=Commit())
    if owner.step == "claiming":
        return owner._replace(step="end", n=claim.n, fenced_id="", read=Commit())
    if owner.step == "leaving":
        return owner._replace(step="fence", n=claim.n, fenced_id=claim.writer, is_alone=True)
    if owner.step == "returning":
        return owner._replace(step="read", n=claim.n, fenced_id=claim.writer, is_alone=False)
    if owner.step == "loop" and share.offset is not None and owner.n == claim.n:
        return owner._replace(position=share.commit.position, end=share.offset + 1)
    return owner


def _broken_promise(scenario: Scenario, world: World, share: Share) -> str:
    """Return the promise that the commit of this share breaks; empty if none."""
    partition, claim = world.partitions[share.partition], share.commit.claim
    assert claim is not None
    if share.offset is None:
        went_back = share.commit.position != partition.commit.position
        is_checked = scenario.checks_zombies and not scenario.loses_markers
        return "the committed offset goes back" if went_back and is_checked else ""
    decided = [
        slot.command
        for offset, slot in enumerate(partition.log)
        if slot.status in ("committed", "hidden") or offset == share.offset
    ]
    if len(set(decided)) < len(decided):
        return "a command is decided twice"
    if decided != list(range(len(decided))):
        return "a command is skipped"
    for worker in world.workers:
        owner = worker.owners[share.partition]
        has_read_end = owner.step in ("fold", "loop") and owner.end <= share.offset
        if scenario.checks_zombies and owner.n > claim.n and has_read_end:
            return "an outcome is committed after a successor has read the end of the log"
    return ""


def write_marker(world: World, id: str, target: int, is_lost: bool = False) -> World:
    """Write a marker of a final commit, or lose it: then Kafka counts it as written."""
    producer = world.producer(id)
    transaction = producer.transaction
    assert transaction is not None and target in transaction.missing_markers
    missing = tuple(other for other in transaction.missing_markers if other != target)
    remaining = transaction._replace(missing_markers=missing) if missing else None
    world = world.with_producer(id, producer._replace(transaction=remaining))
    for share in transaction.shares:
        if target == GROUP:
            partition = world.partitions[share.partition]
            world = world.with_partition(share.partition, _with_commit(partition, id, share.commit, is_lost))
        elif target in written_logs(share):
            world = _end_record(world, share, target, "hidden" if is_lost else "committed")
    return world


def _with_commit(partition: Partition, id: str, commit: Commit, is_lost: bool) -> Partition:
    if is_lost:
        return partition._replace(hidden_commits=(*partition.hidden_commits, (id, commit)))
    if commit.claim == partition.commit.claim:
        return partition._replace(commit=commit)
    return partition._replace(commit=commit, earlier_commit=partition.commit)


def _hidden_commands(world: World, number: int, id: str) -> list[int]:
    """Return the commands of a partition whose outcomes or keys are hidden in a transaction of this id."""
    slots = [
        *world.partitions[number].log,
        *(key.slot for key in world.keys if key.partition == number),
    ]
    return [slot.command for slot in slots if slot.status == "hidden" and slot.writer == id]


def _has_hidden_commit(partition: Partition, id: str) -> bool:
    return any(writer == id for writer, _ in partition.hidden_commits)


def is_hidden(world: World, number: int, id: str) -> bool:
    """Return True if Kafka hides an outcome, a key or the offset of the partition in a transaction of this id."""
    return bool(_hidden_commands(world, number, id)) or _has_hidden_commit(world.partitions[number], id)


def _shows_commit(world: World, number: int, id: str) -> bool:
    """Return True if a part of the hidden transaction of this id is visible in the partition."""
    partition, hidden = world.partitions[number], _hidden_commands(world, number, id)
    position, outcome_count = partition.commit.position, partition.outcome_count
    if hidden:
        return max(position, outcome_count) > min(hidden)
    return _has_hidden_commit(partition, id) and outcome_count > position


def resolve(world: World, rules: Rules, number: int, id: str) -> World:
    """End the hidden transaction of this id: commit it if a part of it is visible, and otherwise abort it.

    If it is resolved for one partition alone, it also ends in the logs that the partitions share.
    """
    numbers = range(len(world.partitions)) if rules.resolves_all_partitions else [number]
    commits = rules.resolves_by_traces and any(_shows_commit(world, number, id) for number in numbers)
    for number in numbers:
        partition = world.partitions[number]
        log = tuple(_resolved(slot, id, commits) for slot in partition.log)
        world = world.with_partition(number, partition._replace(log=log))
    keys = tuple(key._replace(slot=_resolved(key.slot, id, commits)) for key in world.keys)
    world = world._replace(keys=keys)
    for number, before in enumerate(world.partitions):
        after = before._replace(hidden_commits=tuple(item for item in before.hidden_commits if item[0] != id))
        for writer, commit in before.hidden_commits if commits else ():
            if writer == id:
                after = _with_commit(after, id, commit, False)
        world = world.with_partition(number, after)
    return world


def _resolved(slot: Slot, id: str, commits: bool) -> Slot:
    if slot.status != "hidden" or slot.writer != id:
        return slot
    return slot._replace(status="committed" if commits else "aborted")
