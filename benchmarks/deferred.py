"""Deferred commands: the rate of deferrals, the cost of idle owners, and the rate and latency of resubmission."""

import argparse
import statistics
import time
from collections.abc import Iterator

import confluent_kafka
import msgspec

from benchmarks.environment import (
    Environment,
    anonymous_memory,
    command_bytes,
    cpu_seconds,
    new_environment,
    new_id,
    open_accounts,
    workers,
)
from benchmarks.latency import running_decider
from benchmarks.report import report
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.readers import bounds
from cqrs_cli.kafka.topics.topics import Topics

ACCOUNTS = 1000
PARTITIONS = 4

#: A time that never comes.
NEVER = "2999-01-01T00:00:00.000Z"


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--commands", type=int, default=200_000, help="number of commands that become due together"
    )
    options.add_argument(
        "--parked", type=int, default=1_000_000, help="number of commands that never become due"
    )
    options.add_argument(
        "--due",
        type=float,
        default=300.0,
        help="seconds until these commands are due; until then all must be deferred",
    )
    options.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        help="duration of the idle phases, and of the phase with low load",
    )
    arguments = options.parse_args()
    rows: list[dict[str, object]] = []
    with new_environment() as environment:
        topics = environment.topics("bank_account", PARTITIONS)
        open_accounts(environment, topics, ACCOUNTS)
        environment.cqrs("run", "bank_account", "--once")
        rows.append({"what": "idle, none parked", **_idle(environment, topics, arguments.seconds)})
        due = time.time() + arguments.due
        _send_deferred(environment, topics, arguments.commands, rfc3339(int(due * 1000)))
        rows.append(_run_once(environment, "parked", arguments.commands, "deferred"))
        _send_deferred(environment, topics, arguments.parked, NEVER)
        rows.append(_run_once(environment, "parked, never due", arguments.parked, "deferred"))
        rows.append(
            {"what": f"idle, {arguments.parked:,} parked", **_idle(environment, topics, arguments.seconds)}
        )
        time.sleep(max(0.0, due + 1 - time.time()))
        rows.append(_run_once(environment, "resubmitted and decided", arguments.commands, "accepted"))
        with running_decider(environment, topics, PARTITIONS):
            rows.append(_low_load(environment, topics, arguments.seconds))
    report("deferred commands", rows)


def _send_deferred(environment: Environment, topics: Topics, count: int, due_time: str) -> None:
    with CommandProducer(environment.connection, "murmur2", bulk=True, reports=False) as sender:
        for number in range(count):
            subject = f"acc-{number % ACCOUNTS}"
            value = command_bytes("Deposit", subject, '{"amount":5}', new_id("uuid7"))
            sender.send(topics.commands, subject.encode(), _with_due_time(value, due_time))
        sender.flush()


def _with_due_time(value: bytes, due_time: str) -> bytes:
    return value[:-1] + b',"notbefore":"%s"}' % due_time.encode()


def _run_once(environment: Environment, label: str, count: int, status: str) -> dict[str, object]:
    start = time.monotonic()
    summary = environment.cqrs("run", "bank_account", "--once")
    assert summary[status] >= count, summary
    return {
        "what": label,
        "commands_per_s": count / summary["seconds"],
        "owners_us": summary["cpu_seconds"] * 1e6 / count,
        "with_start_s": time.monotonic() - start,
    }


def _idle(environment: Environment, topics: Topics, seconds: float) -> dict[str, object]:
    """Return how much of a core, and how much memory, idle owners use."""
    with running_decider(environment, topics, PARTITIONS) as run:
        time.sleep(5)
        pids = workers(run.pid)
        cpu_before = sum(map(cpu_seconds, pids))
        time.sleep(seconds)
        cores = (sum(map(cpu_seconds, pids)) - cpu_before) / seconds
        return {"cores": cores, "anonymous_mb": sum(map(anonymous_memory, pids)) / 1e6}


def _low_load(environment: Environment, topics: Topics, seconds: float) -> dict[str, object]:
    """Measure ms from a command's due time to its final outcome, at twenty commands a second."""
    reader = clients.consumer(environment.connection, fetch_wait_max_ms=500)
    ends = bounds(environment.connection, topics.outcomes, range(PARTITIONS))
    reader.assign([confluent_kafka.TopicPartition(topics.outcomes, p, end) for p, (_, end) in ends.items()])
    count, first_due, due_times = int(20 * seconds), time.time() + 3, dict[str, float]()
    with CommandProducer(environment.connection, "murmur2", bulk=True, reports=False) as sender:
        for number in range(count):
            subject, id, due_time = f"acc-{number % ACCOUNTS}", new_id("uuid7"), first_due + number / 20
            due_times[id] = due_time
            value = _with_due_time(
                command_bytes("Deposit", subject, '{"amount":5}', id), rfc3339(int(due_time * 1000))
            )
            sender.send(topics.commands, subject.encode(), value)
        sender.flush()
    delays = sorted(_final_delays(reader, due_times))
    reader.close()
    quantiles = statistics.quantiles(delays, n=100)
    return {
        "what": "due to final outcome, ms",
        "p50": quantiles[49],
        "p90": quantiles[89],
        "p99": quantiles[98],
    }


def _final_delays(reader: confluent_kafka.Consumer, due_times: dict[str, float]) -> Iterator[float]:
    deadline = time.monotonic() + 120
    while due_times and time.monotonic() < deadline:
        record = reader.poll(0.5)
        if record is None or record.error():
            continue
        outcome = msgspec.json.decode(record.value() or b"")
        if outcome["data"]["status"] == "accepted" and (
            due_time := due_times.pop(outcome["causationid"], None)
        ):
            yield 1000 * (time.time() - due_time)
    assert not due_times, f"{len(due_times)} have no final outcome"


if __name__ == "__main__":
    main()
