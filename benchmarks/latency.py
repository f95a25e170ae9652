"""Latency at a given rate: from a sent command to its outcome (read_committed), as a client measures it."""

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
from benchmarks.environment import Arena, arena, command, message, new_id, open_accounts
from benchmarks.report import report
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.offsets import committed_offsets_now
from cqrs_cli.kafka.readers import bounds
from cqrs_cli.kafka.topics.partitioner import target_partition
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import TERMINAL, parse_claim

ACCOUNTS = 1000


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rate", type=int, default=200, help="commands per second")
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
    options.add_argument("--commit-ms", type=int, default=20, help="the peer's commit interval")
    arguments = options.parse_args()
    rows = []
    with arena() as environment:
        topics = environment.topics("bank_account", arguments.partitions)
        open_accounts(environment, topics, ACCOUNTS)
        with deciding(environment, topics, arguments.partitions):
            warm_up(environment, topics, arguments)
            cqrs_latencies = [
                _measure(environment, topics, arguments, f"cqrs at {arguments.rate}/s")
                for _ in range(arguments.runs)
            ]
        rows += cqrs_latencies
        for dedup in peer.DEDUP if arguments.peer else ():
            peers = environment.topics("bank_account", arguments.partitions, f"peer-{dedup}.")
            open_accounts(environment, peers, ACCOUNTS)
            with _kafka_streams(environment, peers, arguments, dedup):
                warm_up(environment, peers, arguments)
                what = f"{peer.name_of(dedup)} at {arguments.rate}/s, commits every {arguments.commit_ms} ms"
                rows += [_measure(environment, peers, arguments, what) for _ in range(arguments.runs)]
    report("latency in ms", rows)


@contextmanager
def deciding(
    environment: Arena, topics: Topics, partitions: int, *arguments: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `cqrs run` with these arguments; yield it once it owns every partition."""
    with subprocess.Popen(command("run", "bank_account", *arguments, "-q"), cwd=environment.root) as run:
        try:
            while not is_owned(environment, topics, partitions):
                time.sleep(0.2)
            yield run
        finally:
            run.terminate()  # background jobs of a shell inherit an ignored SIGINT


def is_owned(environment: Arena, topics: Topics, partitions: int) -> bool:
    """True if a run owns every partition."""
    claims = committed_offsets_now(environment.connection, topics, range(partitions)).values()
    return all((claim := parse_claim(offset.metadata)) and claim.attempt < TERMINAL for offset in claims)


@contextmanager
def _kafka_streams(
    environment: Arena, topics: Topics, arguments: argparse.Namespace, dedup: str
) -> Iterator[None]:
    with peer.serving(environment, arguments.peer, topics, arguments.commit_ms, dedup):
        while not any(
            end
            for _, end in bounds(
                environment.connection, topics.outcomes, range(arguments.partitions)
            ).values()
        ):
            time.sleep(0.2)
        yield


def warm_up(environment: Arena, topics: Topics, arguments: argparse.Namespace) -> None:
    """Send at 1,000/s for `given.warm_up` seconds, without a report."""
    busy = {"rate": 1000, "seconds": arguments.warm_up}
    _measure(environment, topics, argparse.Namespace(**{**vars(arguments), **busy}), "warm-up")


def _measure(
    environment: Arena, topics: Topics, arguments: argparse.Namespace, what: str
) -> dict[str, object]:
    latencies = waits(environment, topics, arguments)
    p50, p90, p99 = (
        1000 * latencies[min(len(latencies) - 1, int(len(latencies) * q))] for q in (0.5, 0.9, 0.99)
    )
    return {"what": what, "p50": p50, "p90": p90, "p99": p99, "mean": 1000 * statistics.fmean(latencies)}


def waits(environment: Arena, topics: Topics, arguments: argparse.Namespace) -> list[float]:
    """Send `given.rate` commands a second for `given.seconds`; return the seconds until each outcome, ascending."""
    latencies, unanswered = answers(environment, topics, arguments)
    assert not unanswered, f"{unanswered} of {len(latencies)} commands have no outcome"
    return latencies


def answers(
    environment: Arena,
    topics: Topics,
    arguments: argparse.Namespace,
    until: Callable[[], bool] = lambda: True,
) -> tuple[list[float], int]:
    """Measure as `waits` does, but tolerate missing outcomes: return the waits, and the number of commands without an
    outcome a minute after the last command. Their waits end then.

    `until`: sending continues until this is true, too.
    """
    sent: dict[str, float] = {}
    reader = clients.consumer(environment.connection, fetch_wait_max_ms=500)
    ends = bounds(environment.connection, topics.outcomes, range(arguments.partitions))
    reader.assign([confluent_kafka.TopicPartition(topics.outcomes, p, end) for p, (_, end) in ends.items()])
    reader.poll(1)
    sending = send_meanwhile(environment, topics, arguments, sent, until)
    latencies = list(_read(reader, sent, sending))
    reader.close()
    now, least = time.perf_counter(), int(arguments.rate * arguments.seconds)
    unanswered = [now - due for due in sent.values()]
    assert len(latencies) + len(unanswered) >= least, (
        f"only {len(latencies) + len(unanswered)} of {least} were sent"
    )
    return sorted(latencies + unanswered), len(unanswered)


def send_meanwhile(
    environment: Arena,
    topics: Topics,
    arguments: argparse.Namespace,
    sent: dict[str, float],
    until: Callable[[], bool] = lambda: True,
) -> threading.Thread:
    """Send deposits at `given.rate` for `given.seconds`, and until `until` is true, in a thread. `sent` gets the due
    time of each command by its id.
    """
    sending = threading.Thread(target=_send, args=(environment, topics, arguments, sent, until), daemon=True)
    sending.start()
    return sending


def _send(
    environment: Arena,
    topics: Topics,
    arguments: argparse.Namespace,
    sent: dict[str, float],
    until: Callable[[], bool],
) -> None:
    """Send at even intervals. A late command is sent at once; its wait is measured from its due time."""
    producer = clients.producer(environment.connection, linger_ms=0, queue_buffering_max_messages=1_000_000)
    least = int(arguments.rate * arguments.seconds)

    def produce(number: int, due: float | None) -> None:
        subject, command_id = f"acc-{number % ACCOUNTS}", new_id("uuid7")
        key, value = subject.encode(), message("Deposit", subject, '{"amount":5}', command_id)
        if due is not None:
            sent[command_id] = due
        partition = target_partition("murmur2", key, arguments.partitions)
        producer.produce(topics.commands, value, key, partition, headers=dict(HEADERS))

    # The sender's start is not measured: its producer id, metadata and connection to the leader take up to 350 ms.
    for number in range(ACCOUNTS):
        produce(number, None)
    producer.flush(30)
    began, number = time.perf_counter() + 0.5, 0  # by then these commands are decided
    while number < least or not until():
        due = began + number / arguments.rate
        if (wait := due - time.perf_counter()) > 0:
            producer.poll(wait)
            while (wait := due - time.perf_counter()) > 0:
                time.sleep(wait)
        produce(number, due)
        number += 1
    producer.flush(30)


def _read(
    reader: confluent_kafka.Consumer, sent: dict[str, float], sending: threading.Thread
) -> Iterator[float]:
    """Yield the wait in seconds for each outcome as it arrives; give up a minute after the last command."""
    mark, last = b'"causationid":"', time.monotonic()
    while (busy := sending.is_alive()) or (sent and time.monotonic() < last + 60):
        last = time.monotonic() if busy else last
        record = reader.poll(0.5)
        if record is None or record.error():
            continue
        now, value = time.perf_counter(), record.value() or b""
        start = value.index(mark) + len(mark)
        began = sent.pop(value[start : value.index(b'"', start)].decode(), None)
        if began is not None:
            yield now - began


if __name__ == "__main__":
    main()
