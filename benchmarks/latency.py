"""Latency at a given rate: from a sent command to its outcome (read_committed), as a client measures it.

Each row also has the cores that the broker and the owners use on average.
"""

import argparse
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka

from benchmarks import peer
from benchmarks.environment import (
    Environment,
    command,
    command_bytes,
    new_environment,
    new_id,
    open_accounts,
    tree_cpu_seconds,
)
from benchmarks.report import report
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.offsets import committed_offsets_now
from cqrs_cli.kafka.readers import bounds
from cqrs_cli.kafka.topics.partitioner import producer_partition
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import TERMINAL, parse_claim

ACCOUNTS = 1000


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--rate", type=int, action="append", help="commands per second, 200 by default; may be repeated"
    )
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--runs", type=int, default=5)
    options.add_argument(
        "--warm-up",
        type=float,
        default=60.0,
        help="seconds at 1,000/s before the first run: JVMs are slow at first",
    )
    options.add_argument("--peer", type=Path, help="folder of the Kafka Streams peer (kstreams/run.sh in it)")
    options.add_argument(
        "--commit-ms", type=int, default=peer.LOW_LATENCY_COMMIT_MS, help="the peer's commit interval"
    )
    options.add_argument(
        "--dedup", choices=peer.DEDUP, action="append", help="the peer in this mode only; may be repeated"
    )
    arguments = options.parse_args()
    rows = []
    with new_environment() as environment:
        topics = environment.topics("bank_account", arguments.partitions)
        open_accounts(environment, topics, ACCOUNTS)
        with running_decider(environment, topics, arguments.partitions) as run:
            warm_up(environment, topics, arguments)
            rows += _measure_runs(environment, topics, arguments, "cqrs", run.pid)
        for dedup in (arguments.dedup or peer.DEDUP) if arguments.peer else ():
            peer_topics = environment.topics("bank_account", arguments.partitions, f"peer-{dedup}.")
            open_accounts(environment, peer_topics, ACCOUNTS)
            with running_peer(environment, peer_topics, arguments, dedup) as run:
                warm_up(environment, peer_topics, arguments)
                rows += _measure_runs(environment, peer_topics, arguments, peer.name_of(dedup), run.pid)
    report("latency in ms", rows)


def _measure_runs(
    environment: Environment, topics: Topics, arguments: argparse.Namespace, system: str, pid: int
) -> list[dict[str, object]]:
    """Measure each rate `arguments.runs` times."""
    rows = []
    for rate in arguments.rate or [200]:
        rate_arguments = argparse.Namespace(**{**vars(arguments), "rate": rate})
        for _ in range(arguments.runs):
            rows.append(_measure(environment, topics, rate_arguments, f"{system} at {rate}/s", pid))
    return rows


@contextmanager
def running_decider(
    environment: Environment, topics: Topics, partitions: int, *arguments: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `cqrs run` with these arguments; yield it once it owns every partition."""
    with subprocess.Popen(command("run", "bank_account", *arguments, "-q"), cwd=environment.root) as run:
        try:
            while not is_owned(environment, topics, partitions):
                time.sleep(0.2)
            yield run
        finally:
            run.terminate()  # background jobs of a shell inherit an ignored SIGINT


def is_owned(environment: Environment, topics: Topics, partitions: int) -> bool:
    """True if a run owns every partition."""
    claims = committed_offsets_now(environment.connection, topics, range(partitions)).values()
    return all((claim := parse_claim(offset.metadata)) and claim.attempt < TERMINAL for offset in claims)


@contextmanager
def running_peer(
    environment: Environment, topics: Topics, arguments: argparse.Namespace, dedup: str
) -> Iterator["subprocess.Popen[bytes]"]:
    with peer.running_peer(environment, arguments.peer, topics, arguments.commit_ms, dedup) as process:
        while not any(
            end
            for _, end in bounds(
                environment.connection, topics.outcomes, range(arguments.partitions)
            ).values()
        ):
            time.sleep(0.2)
        yield process


def warm_up(environment: Environment, topics: Topics, arguments: argparse.Namespace) -> None:
    """Send at 1,000/s for `arguments.warm_up` seconds, without a report."""
    changes = {"rate": 1000, "seconds": arguments.warm_up}
    measure_all_waits(environment, topics, argparse.Namespace(**{**vars(arguments), **changes}))


def _measure(
    environment: Environment, topics: Topics, arguments: argparse.Namespace, label: str, pid: int
) -> dict[str, object]:
    """Measure one run. `pid`: the root of the process tree whose processor time is the owners' time."""
    began_at, broker_before, owners_before = (
        time.perf_counter(),
        environment.broker_cpu(),
        tree_cpu_seconds(pid),
    )
    latencies = measure_all_waits(environment, topics, arguments)
    seconds = time.perf_counter() - began_at
    broker_cores = (environment.broker_cpu() - broker_before) / seconds
    owner_cores = (tree_cpu_seconds(pid) - owners_before) / seconds
    p50, p90, p99 = (
        1000 * latencies[min(len(latencies) - 1, int(len(latencies) * q))] for q in (0.5, 0.9, 0.99)
    )
    return {
        "what": label,
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "mean": 1000 * statistics.fmean(latencies),
        "broker_cores": broker_cores,
        "owner_cores": owner_cores,
    }


def measure_all_waits(environment: Environment, topics: Topics, arguments: argparse.Namespace) -> list[float]:
    """Send `arguments.rate` commands a second for `arguments.seconds`.

    Returns the seconds until each outcome, in ascending order.
    """
    latencies, unanswered = measure_waits(environment, topics, arguments)
    assert not unanswered, f"{unanswered} of {len(latencies)} commands have no outcome"
    return latencies


def measure_waits(
    environment: Environment,
    topics: Topics,
    arguments: argparse.Namespace,
    is_complete: Callable[[], bool] = lambda: True,
) -> tuple[list[float], int]:
    """Measure as `measure_all_waits` does, but tolerate missing outcomes.

    Returns the waits, and the number of commands without an outcome a minute after the last command. Their waits end
    then.

    Sending also continues until `is_complete` returns True.
    """
    due_times: dict[str, float] = {}
    reader = clients.consumer(environment.connection, fetch_wait_max_ms=500)
    ends = bounds(environment.connection, topics.outcomes, range(arguments.partitions))
    reader.assign([confluent_kafka.TopicPartition(topics.outcomes, p, end) for p, (_, end) in ends.items()])
    reader.poll(1)
    sender = send_in_background(environment, topics, arguments, due_times, is_complete)
    latencies = list(_read(reader, due_times, sender))
    reader.close()
    now, least_count = time.perf_counter(), int(arguments.rate * arguments.seconds)
    unanswered = [now - due for due in due_times.values()]
    assert len(latencies) + len(unanswered) >= least_count, (
        f"only {len(latencies) + len(unanswered)} of {least_count} were sent"
    )
    return sorted(latencies + unanswered), len(unanswered)


def send_in_background(
    environment: Environment,
    topics: Topics,
    arguments: argparse.Namespace,
    due_times: dict[str, float],
    is_complete: Callable[[], bool] = lambda: True,
) -> threading.Thread:
    """Send deposits at `arguments.rate` for `arguments.seconds`, and until `is_complete` returns True, in a thread.

    Each command's due time is added to `due_times`, by the command's id.
    """
    sender = threading.Thread(
        target=_send, args=(environment, topics, arguments, due_times, is_complete), daemon=True
    )
    sender.start()
    return sender


def _send(
    environment: Environment,
    topics: Topics,
    arguments: argparse.Namespace,
    due_times: dict[str, float],
    is_complete: Callable[[], bool],
) -> None:
    """Send at even intervals. A late command is sent at once; its wait is measured from its due time."""
    producer = clients.producer(environment.connection, linger_ms=0, queue_buffering_max_messages=1_000_000)
    least_count = int(arguments.rate * arguments.seconds)

    def produce(number: int, due: float | None) -> None:
        subject, command_id = f"acc-{number % ACCOUNTS}", new_id("uuid7")
        key, value = subject.encode(), command_bytes("Deposit", subject, '{"amount":5}', command_id)
        if due is not None:
            due_times[command_id] = due
        partition = producer_partition("murmur2", key, arguments.partitions)
        producer.produce(topics.commands, value, key, partition, headers=dict(HEADERS))

    # The sender's start is not measured: its producer id, metadata and connection to the leader take up to 350 ms.
    for number in range(ACCOUNTS):
        produce(number, None)
    producer.flush(30)
    start, number = time.perf_counter() + 0.5, 0  # by then these commands are decided
    while number < least_count or not is_complete():
        due = start + number / arguments.rate
        if (remaining := due - time.perf_counter()) > 0:
            producer.poll(remaining)
            while (remaining := due - time.perf_counter()) > 0:
                time.sleep(remaining)
        produce(number, due)
        number += 1
    producer.flush(30)


def _read(
    reader: confluent_kafka.Consumer, due_times: dict[str, float], sender: threading.Thread
) -> Iterator[float]:
    """Yield the wait in seconds for each outcome as it arrives; give up a minute after the last command."""
    marker, last_time = b'"causationid":"', time.monotonic()
    while (is_sending := sender.is_alive()) or (due_times and time.monotonic() < last_time + 60):
        last_time = time.monotonic() if is_sending else last_time
        record = reader.poll(0.5)
        if record is None or record.error():
            continue
        now, value = time.perf_counter(), record.value() or b""
        id_start = value.index(marker) + len(marker)
        due_time = due_times.pop(value[id_start : value.index(b'"', id_start)].decode(), None)
        if due_time is not None:
            yield now - due_time


if __name__ == "__main__":
    main()
