"""Measure how fast a process manager sends a command for each event, and how soon the commands are decided."""

import argparse
import statistics
import time

import confluent_kafka

from benchmarks.environment import Environment, new_environment, open_accounts
from benchmarks.latency import ACCOUNTS, running_decider, send_in_background
from benchmarks.project import write_deposits
from benchmarks.report import report
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.readers import bounds
from cqrs_cli.kafka.topics.topics import Topics

#: Warm-up rounds. While the broker's JVM is new, the three transactions for each command take more than both cores, and
#: every step takes several times as long.
WARM_UPS = 3

_PROCESS = """
from collections.abc import Iterator
import cqrs_cli as cqrs
from aggregates.bank_account import Deposited
from aggregates.counter import Increment

def react(event: Deposited, at: cqrs.Recorded) -> Iterator[cqrs.Send]:
    yield cqrs.Send("counter", at.aggregate_id, Increment(event.amount))

process = cqrs.Process(react)
"""


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=400_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--rate", type=int, default=200, help="commands per second, of the latency")
    options.add_argument("--seconds", type=float, default=10.0)
    arguments = options.parse_args()
    report("process", _rates(arguments))
    report("process latency in ms", _latencies(arguments))


def _rates(arguments: argparse.Namespace) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    with new_environment() as environment:
        (environment.root / "processes").mkdir()
        write_deposits(
            environment,
            environment.topics("bank_account", arguments.partitions),
            arguments.events,
            arguments.partitions,
        )
        environment.topics("counter", arguments.partitions)
        for run in range(arguments.runs):
            name = f"counting_{run}"
            (environment.root / f"processes/{name}.py").write_text(_PROCESS)
            environment.cqrs("init")
            broker_before = environment.broker_cpu()
            summary = environment.cqrs("run", "--process", name, "--once", "--from", "beginning")
            reactions = summary["reactions"]
            assert reactions["commands"] == arguments.events, summary
            us_per_event = 1e6 / arguments.events
            rows.append(
                {
                    "what": "process",
                    "events_per_s": reactions["events"] / reactions["seconds"],
                    "cpu_us_per_event": summary["cpu_seconds"] * us_per_event,
                    "broker_cpu_us_per_event": (environment.broker_cpu() - broker_before) * us_per_event,
                }
            )
    return rows


def _latencies(arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Measure ms from a command to its outcome and event, and from the event to the outcome of the reaction."""
    with new_environment() as environment:
        (environment.root / "processes").mkdir()
        (environment.root / "processes/counting.py").write_text(_PROCESS)
        bank_topics, counter_topics = (
            environment.topics(name, arguments.partitions) for name in ("bank_account", "counter")
        )
        environment.cqrs("init")
        open_accounts(environment, bank_topics, ACCOUNTS)
        with running_decider(
            environment, bank_topics, arguments.partitions, "counter", "--process", "counting"
        ):
            for _ in range(WARM_UPS):
                _measure(environment, bank_topics, counter_topics, arguments)
            return [
                row
                for _ in range(arguments.runs)
                for row in _measure(environment, bank_topics, counter_topics, arguments)
            ]


def _measure(
    environment: Environment, bank_topics: Topics, counter_topics: Topics, arguments: argparse.Namespace
) -> list[dict[str, object]]:
    partitions = [
        confluent_kafka.TopicPartition(topic, number, end)
        for topic in (bank_topics.outcomes, counter_topics.outcomes)
        for number, (_, end) in bounds(environment.connection, topic, range(arguments.partitions)).items()
    ]
    reader = clients.consumer(environment.connection, fetch_wait_max_ms=500)
    reader.assign(partitions)
    reader.poll(1)
    due_times: dict[str, float] = {}
    outcome_times: dict[str, float] = {}
    reaction_times: dict[str, float] = {}
    send_in_background(environment, bank_topics, arguments, due_times)
    total, deadline = int(arguments.rate * arguments.seconds), time.monotonic() + arguments.seconds + 60
    while len(reaction_times) < total and time.monotonic() < deadline:
        record = reader.poll(0.5)
        if record is None or record.error():
            continue
        now, id = time.perf_counter(), _correlation(record.value() or b"")
        if id in due_times:
            (outcome_times if record.topic() == bank_topics.outcomes else reaction_times)[id] = now
    reader.close()
    assert len(reaction_times) == len(outcome_times) == total, (
        f"{len(outcome_times)} outcomes, {len(reaction_times)} reactions, not {total}"
    )
    return [
        _row(
            f"command to outcome at {arguments.rate}/s",
            [outcome_times[id] - due_times[id] for id in outcome_times],
        ),
        _row(
            f"event to reaction's outcome at {arguments.rate}/s",
            [reaction_times[id] - outcome_times[id] for id in outcome_times],
        ),
    ]


def _correlation(outcome: bytes) -> str:
    marker = b'"correlationid":"'
    start = outcome.index(marker) + len(marker)
    return outcome[start : outcome.index(b'"', start)].decode()


def _row(label: str, seconds: list[float]) -> dict[str, object]:
    quantiles = statistics.quantiles(seconds, n=100)
    return {
        "what": label,
        "p50": 1000 * quantiles[49],
        "p90": 1000 * quantiles[89],
        "p99": 1000 * quantiles[98],
    }


if __name__ == "__main__":
    main()
