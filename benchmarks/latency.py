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
    given = options.parse_args()
    rows = []
    with arena() as here:
        ours = here.topics("bank_account", given.partitions)
        open_accounts(here, ours, ACCOUNTS)
        with deciding(here, ours, given.partitions):
            warm_up(here, ours, given)
            mine = [_measure(here, ours, given, f"cqrs at {given.rate}/s") for _ in range(given.runs)]
        rows += mine
        for dedup in peer.DEDUP if given.peer else ():
            peers = here.topics("bank_account", given.partitions, f"peer-{dedup}.")
            open_accounts(here, peers, ACCOUNTS)
            with _kafka_streams(here, peers, given, dedup):
                warm_up(here, peers, given)
                what = f"{peer.name_of(dedup)} at {given.rate}/s, commits every {given.commit_ms} ms"
                rows += [_measure(here, peers, given, what) for _ in range(given.runs)]
    report("latency in ms", rows)


@contextmanager
def deciding(
    here: Arena, topics: Topics, partitions: int, *arguments: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `cqrs run` with these arguments; yield it once it owns every partition."""
    with subprocess.Popen(command("run", "bank_account", *arguments, "-q"), cwd=here.root) as run:
        try:
            while not is_owned(here, topics, partitions):
                time.sleep(0.2)
            yield run
        finally:
            run.terminate()  # background jobs of a shell inherit an ignored SIGINT


def is_owned(here: Arena, topics: Topics, partitions: int) -> bool:
    """True if a run owns every partition."""
    found = committed_offsets_now(here.connection, topics, range(partitions)).values()
    return all((claim := parse_claim(one.metadata)) and claim.attempt < TERMINAL for one in found)


@contextmanager
def _kafka_streams(here: Arena, topics: Topics, given: argparse.Namespace, dedup: str) -> Iterator[None]:
    with peer.serving(here, given.peer, topics, given.commit_ms, dedup):
        while not any(
            end for _, end in bounds(here.connection, topics.outcomes, range(given.partitions)).values()
        ):
            time.sleep(0.2)
        yield


def warm_up(here: Arena, topics: Topics, given: argparse.Namespace) -> None:
    """Send at 1,000/s for `given.warm_up` seconds, without a report."""
    busy = {"rate": 1000, "seconds": given.warm_up}
    _measure(here, topics, argparse.Namespace(**{**vars(given), **busy}), "warm-up")


def _measure(here: Arena, topics: Topics, given: argparse.Namespace, what: str) -> dict[str, object]:
    taken = waits(here, topics, given)
    p50, p90, p99 = (1000 * taken[min(len(taken) - 1, int(len(taken) * q))] for q in (0.5, 0.9, 0.99))
    return {"what": what, "p50": p50, "p90": p90, "p99": p99, "mean": 1000 * statistics.fmean(taken)}


def waits(here: Arena, topics: Topics, given: argparse.Namespace) -> list[float]:
    """Send `given.rate` commands a second for `given.seconds`; return the seconds until each outcome, ascending."""
    taken, unanswered = answers(here, topics, given)
    assert not unanswered, f"{unanswered} of {len(taken)} commands have no outcome"
    return taken


def answers(
    here: Arena, topics: Topics, given: argparse.Namespace, until: Callable[[], bool] = lambda: True
) -> tuple[list[float], int]:
    """Measure as `waits` does, but tolerate missing outcomes: return the waits, and the number of commands without an
    outcome a minute after the last command. Their waits end then.

    `until`: sending continues until this is true, too.
    """
    sent: dict[str, float] = {}
    reader = clients.consumer(here.connection, fetch_wait_max_ms=500)
    ends = bounds(here.connection, topics.outcomes, range(given.partitions))
    reader.assign([confluent_kafka.TopicPartition(topics.outcomes, p, end) for p, (_, end) in ends.items()])
    reader.poll(1)
    sending = send_meanwhile(here, topics, given, sent, until)
    taken = list(_read(reader, sent, sending))
    reader.close()
    now, least = time.perf_counter(), int(given.rate * given.seconds)
    unanswered = [now - due for due in sent.values()]
    assert len(taken) + len(unanswered) >= least, f"only {len(taken) + len(unanswered)} of {least} were sent"
    return sorted(taken + unanswered), len(unanswered)


def send_meanwhile(
    here: Arena,
    topics: Topics,
    given: argparse.Namespace,
    sent: dict[str, float],
    until: Callable[[], bool] = lambda: True,
) -> threading.Thread:
    """Send deposits at `given.rate` for `given.seconds`, and until `until` is true, in a thread. `sent` gets the due
    time of each command by its id.
    """
    sending = threading.Thread(target=_send, args=(here, topics, given, sent, until), daemon=True)
    sending.start()
    return sending


def _send(
    here: Arena, topics: Topics, given: argparse.Namespace, sent: dict[str, float], until: Callable[[], bool]
) -> None:
    """Send at even intervals. A late command is sent at once; its wait is measured from its due time."""
    producer = clients.producer(here.connection, linger_ms=0, queue_buffering_max_messages=1_000_000)
    least = int(given.rate * given.seconds)

    def produce(number: int, due: float | None) -> None:
        subject, command_id = f"acc-{number % ACCOUNTS}", new_id("uuid7")
        key, value = subject.encode(), message("Deposit", subject, '{"amount":5}', command_id)
        if due is not None:
            sent[command_id] = due
        partition = target_partition("murmur2", key, given.partitions)
        producer.produce(topics.commands, value, key, partition, headers=dict(HEADERS))

    # The sender's start is not measured: its producer id, metadata and connection to the leader take up to 350 ms.
    for number in range(ACCOUNTS):
        produce(number, None)
    producer.flush(30)
    began, number = time.perf_counter() + 0.5, 0  # by then these commands are decided
    while number < least or not until():
        due = began + number / given.rate
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
