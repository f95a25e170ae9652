"""Ending a run from outside: fence each partition that is still its own, and leave a terminal claim.

The fence aborts an open transaction at once instead of after its timeout. The terminal claim, of an attempt higher than
any task's, tells a straggling owner to return quietly. A newer run hit by the fence in a race judges it behind itself.
"""

import threading
import time
from queue import Empty, SimpleQueue

from confluent_kafka import KafkaException

from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.offsets import committed
from cqrs_cli.kafka.writer import TRANSACTION_TIMEOUT, FencedWriter
from cqrs_cli.owner.claim import parse_claim, terminal
from cqrs_cli.owner.plan import Partition, Plan

#: So many partitions at once.
WORKERS = 8

#: Nobody waits longer than this, in seconds: without brokers a call may never return (`FencedWriter.waiting`).
PATIENCE = 2 * TRANSACTION_TIMEOUT


def retire(plan: Plan) -> None:
    """Retire every partition of the plan; what cannot be reached is left to the transaction timeout."""
    partitions: SimpleQueue[Partition] = SimpleQueue()
    for partition in plan.partitions():
        partitions.put(partition)
    workers = [threading.Thread(target=_work, args=(plan, partitions), daemon=True) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    deadline = time.monotonic() + PATIENCE
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
    ground, number = plan.grounds[partition.aggregate], partition.number
    topic = ground.topics.commands
    watcher = consumer(plan.connection, group=ground.topics.group, isolation="read_uncommitted")
    reader = consumer(plan.connection, group=ground.topics.group)
    try:
        committed_claim = parse_claim(committed(watcher, topic, [number])[number].metadata)
        if terminal(committed_claim, plan.run_epoch, plan.run) is None:
            return
        writer = FencedWriter(plan.connection, ground.topics, number, min(ground.max_bytes.values()))
        writer.fence()
        # Read anew: the fence may have let a last commit through, and somebody else may have moved the offset.
        found = committed(reader, topic, [number])[number]
        last = terminal(parse_claim(found.metadata), plan.run_epoch, plan.run)
        if found.offset is not None and last is not None:
            writer.commit_position(reader, found.offset, last.metadata())
    except KafkaException:
        pass  # fenced by a newer run, or no broker: either way there is nothing left to end
    finally:
        watcher.close()
        reader.close()
