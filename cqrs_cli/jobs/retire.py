"""Ending a run from outside: fence each partition that is still its own, and leave a terminal claim.

The fence aborts an open transaction at once instead of after its timeout. The terminal claim, of an attempt higher than
any task's, tells a straggling owner to return quietly. A newer run hit by the fence in a race judges it behind itself.
"""

from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import KafkaException

from cqrs_cli.jobs.assignment import Plan
from cqrs_cli.jobs.claim import parse_claim, terminal
from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.offsets import committed
from cqrs_cli.kafka.writer import FencedWriter


def retire(plan: Plan) -> None:
    """Retire every partition of the plan; what cannot be reached is left to the transaction timeout."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda unit: _retire_one(plan, unit), plan.units()))


def _retire_one(plan: Plan, unit: tuple[str, int]) -> None:
    ground, partition = plan.grounds[unit[0]], unit[1]
    topic = ground.topics.commands
    watcher = consumer(plan.connection, group=ground.topics.group, isolation="read_uncommitted")
    group = consumer(plan.connection, group=ground.topics.group)
    try:
        standing = parse_claim(committed(watcher, topic, [partition])[partition].metadata)
        if terminal(standing, plan.generation, plan.run) is None:
            return
        writer = FencedWriter(plan.connection, ground.topics, partition, min(ground.max_bytes.values()))
        writer.fence()
        found = committed(group, topic, [partition])[
            partition
        ]  # the fence may have let a last commit through
        last = terminal(parse_claim(found.metadata) or standing, plan.generation, plan.run)
        if found.offset is not None and last is not None:
            writer.commit_position(group, found.offset, last.metadata())
    except KafkaException:
        pass  # fenced by a newer run, or no broker: either way there is nothing left to end
    finally:
        watcher.close()
        group.close()
