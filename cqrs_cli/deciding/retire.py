"""Ending a run from outside: fence each partition that is still its own, and leave a terminal claim.

The fence aborts an open transaction at once instead of after its timeout. The terminal claim, of an attempt higher than
any task's, tells a straggling owner to return quietly. A newer run hit by the fence in a race judges it behind itself.
"""

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.recover import parse_outcome
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.offsets import Committed
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.writer import FencedWriter
from cqrs_cli.ownership.claim import Claim, parse_claim, terminal

#: Partitions that are retired at once.
WORKERS = 8


def retire(plan: Plan) -> None:
    """Retire every partition of the plan; the transaction timeout ends those that cannot be reached."""
    partitions: SimpleQueue[Partition] = SimpleQueue()
    for partition in plan.partitions():
        partitions.put(partition)
    workers = [threading.Thread(target=_work, args=(plan, partitions), daemon=True) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    deadline = time.monotonic() + plan.timing.retire_deadline
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))


def _work(plan: Plan, partitions: "SimpleQueue[Partition]") -> None:
    while True:
        try:
            partition = partitions.get_nowait()
        except Empty:
            return
        _retire_one(plan, partition)


def _retire_one(plan: Plan, partition: Partition) -> None:
    leave_claim(plan, partition, lambda _, claim: terminal(claim, plan.run_epoch, plan.run))


def leave_claim(plan: Plan, partition: Partition, change: Callable[[int, Claim], Claim | None]) -> None:
    """Fence a partition's owner and replace its claim by what `change` makes of the group's offset and the claim.

    It is asked before and after the fence; None leaves the claim as it is. So does an offset below what is decided: it
    is an old one, told by a broker that was cut off, and to commit it would move the group back. Without a broker
    nothing happens.
    """
    log, max_bytes = plan.log(partition), plan.topics[partition.aggregate].max_bytes
    watcher = consumer(plan.connection, group=log.topics.group, isolation="read_uncommitted")
    reader = consumer(plan.connection, group=log.topics.group)
    try:
        if _changed(log.committed_by(watcher), change) is None:
            return
        timing, least = plan.timing, min(max_bytes.values())
        writer = FencedWriter(log, least, timing.transaction_timeout, timing.produce_timeout)
        writer.fence()
        # Read again: the fence may have let a last commit through, and somebody else may have moved the offset.
        found = log.committed_by(reader)
        last = _changed(found, change)
        if found.offset is not None and last is not None and not _is_old(log, reader, found.offset, last):
            writer.commit_position(reader, _behind_holes(log, reader, found.offset), last.metadata())
    except (KafkaException, CqrsError):
        pass  # fenced by a newer run, or no broker: either way there is nothing left to end
    finally:
        watcher.close()
        reader.close()


def _changed(found: Committed, change: Callable[[int, Claim], Claim | None]) -> Claim | None:
    claim = parse_claim(found.metadata)
    return None if claim is None or found.offset is None else change(found.offset, claim)


def _is_old(log: PartitionLog, reader: Consumer, offset: int, claim: Claim) -> bool:
    """True if the command at this offset, or one behind it, has an outcome that is not from before an accepted loss."""
    last = log.last_record("outcomes", *log.watermarks(reader, "outcomes"))
    if last is None or (claim.accepted is not None and last.offset < claim.accepted.outcomes):
        return False
    return parse_outcome(log, last).data.offset >= offset


def _behind_holes(log: PartitionLog, reader: Consumer, offset: int) -> int:
    """The end of the log if only control and aborted records are left from `offset` on, else `offset`.

    Once retention has deleted them nothing tells them from commands that were never decided.
    """
    start, end = log.watermarks(reader, "commands")
    left = start <= offset < end and log.first_record("commands", offset, end) is None
    return end if left else offset
