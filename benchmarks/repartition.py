"""Repartitioning under load: the longest pause of a partition, and the numbers of lost, repeated and overtaken
commands.

Deposits arrive at a steady rate. Other clients wait for each outcome; half of these clients never learn of a
repartitioning. Each repartitioning doubles the partitions; then another run starts, takes over and splits.
"""

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from benchmarks.environment import Environment, new_environment, open_accounts, send_deposits
from benchmarks.flow import Flow, WaitingClient
from benchmarks.latency import running_decider
from benchmarks.report import report
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.deciding.repartition import repartition
from cqrs_cli.kafka.topics.topics import Topics
from tests.support.traffic import StaleProducer

_ONCE = ("run", "bank_account", "--once")

#: The number of clients that wait for each outcome.
_CLIENT_COUNT = 8

Row = dict[str, object]


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rate", type=int, default=20_000, help="commands per second")
    options.add_argument("--aggregates", type=int, default=2_000_000)
    options.add_argument("--partitions", type=int, default=4, help="before the first growth")
    options.add_argument("--growths", type=int, default=2)
    options.add_argument("--seconds", type=float, default=30.0, help="before, and after each growth")
    options.add_argument(
        "--at-once", action="store_true", help="the sender hears of a growth before another run is there"
    )
    options.add_argument("--prepared", action="store_true", help="fold the new shards beside the old run")
    options.add_argument("--backlog", type=int, default=1_000_000, help="deposits for the steady state")
    options.add_argument("--runs", type=int, default=3, help="times that the steady state is measured")
    arguments = options.parse_args()
    with new_environment() as environment:
        topics = environment.topics("bank_account", arguments.partitions)
        open_accounts(environment, topics, arguments.aggregates)
        environment.cqrs(*_ONCE, "--state-dir", _shards(arguments.partitions))
        rows, count, flow = _repartition_under_load(environment, topics, arguments)
        report("longest wait for an outcome while partitions grow, seconds", rows)
        if arguments.backlog:
            steady_rows = _measure_steady_state(environment, topics, arguments, count, flow)
            report("an aggregate that has grown beside one that never did", steady_rows)


def _repartition_under_load(
    environment: Environment, topics: Topics, arguments: argparse.Namespace
) -> tuple[list[Row], int, Flow]:
    """Repartition under load; return a row for each phase, the final number of partitions, and the sent commands."""
    count = arguments.partitions
    with ExitStack() as stack:
        stack.enter_context(_run(environment, topics, count))
        flow = Flow(environment, topics, arguments.rate, arguments.aggregates, count)
        clients = _start_waiting_clients(environment, topics, count)
        phases = [(f"{count} partitions", time.perf_counter())]
        time.sleep(arguments.seconds)
        for _ in range(arguments.growths):
            count *= 2
            if arguments.prepared:
                _prepare(environment, count)
            phases.append((f"growth to {count}", time.perf_counter()))
            repartition(environment.connection, topics, count, "murmur2")
            flow.read_more(count)
            if arguments.at_once:
                flow.refresh_partition_count()
            stack.enter_context(_run(environment, topics, count))
            flow.refresh_partition_count()
            time.sleep(arguments.seconds)
        for client in clients:
            client.stopping.set()
            client.join(120)
        flow.finish(120)
    return [*_phases(flow, phases), _totals(flow, clients)], count, flow


@contextmanager
def _run(environment: Environment, topics: Topics, count: int) -> Iterator[None]:
    """Start a run on this number of partitions; it takes over from the previous run."""
    with running_decider(environment, topics, count, "--state-dir", _shards(count)):
        yield


def _shards(count: int) -> str:
    """Return the folder of the shards for this number of partitions."""
    return f"shards-{count}"


def _prepare(environment: Environment, count: int) -> None:
    """Fold the shards of the new partitions while the previous run continues."""
    environment.cqrs("rebuild", "bank_account", "--partitions", str(count), "--state-dir", _shards(count))


def _start_waiting_clients(environment: Environment, topics: Topics, count: int) -> list[WaitingClient]:
    def new_sender(number: int) -> CommandProducer:
        return (
            StaleProducer(environment.connection, count)
            if number % 2
            else CommandProducer(environment.connection, "murmur2")
        )

    waits = [
        WaitingClient(environment, topics, number, partial(new_sender, number))
        for number in range(_CLIENT_COUNT)
    ]
    for client in waits:
        client.start()
    return waits


def _phases(flow: Flow, phases: list[tuple[str, float]]) -> Iterator[Row]:
    """Yield a row for each phase: the waits of the commands sent in it, by the partition that decided them."""
    ends = [*(start for _, start in phases[1:]), float("inf")]
    for (label, start), end in zip(phases, ends, strict=True):
        waits = defaultdict[int, list[float]](list)
        for number, final in flow.final_outcomes.items():
            if start <= flow.sent[number] < end:
                waits[final.partition].append(final.time - flow.sent[number])
        longest = [max(outcomes) for outcomes in waits.values()]
        yield {
            "what": label,
            "longest": max(longest),
            "longest_of_the_median_partition": statistics.median(longest),
            "median": statistics.median(outcome for outcomes in waits.values() for outcome in outcomes),
        }


def _totals(flow: Flow, clients: list[WaitingClient]) -> Row:
    errors = [client.error for client in clients if client.error is not None]
    return {
        "what": f"{len(flow.sent):,} sent, and {sum(client.sent for client in clients):,} by clients that wait",
        "lost": len(flow.sent) - len(flow.final_outcomes),
        "twice": flow.repeated_count,
        "overtaken": flow.overtaken_count(),
        "wrong_for_clients_that_wait": sum(client.wrong_count for client in clients) + len(errors),
    }


def _measure_steady_state(
    environment: Environment, topics: Topics, arguments: argparse.Namespace, count: int, flow: Flow
) -> list[Row]:
    """Measure the backlog rate of both aggregates, in turn. Both have decided equal commands before, because remembered
    ids cost time.
    """
    even_topics = environment.topics("bank_account", count, "even.")
    open_accounts(environment, even_topics, arguments.aggregates)
    flow.repeat(even_topics)
    aggregates = [("grown", topics, ""), ("with these from the start", even_topics, "even.")]
    rows = []
    for _ in range(arguments.runs + 1):
        for label, topics_of_aggregate, prefix in aggregates:
            send_deposits(environment, topics_of_aggregate, arguments.backlog, arguments.aggregates)
            state = f"steady-{prefix}{count}"
            summary = environment.cqrs(
                *_ONCE, "--state-dir", state, *(("--topic-prefix", prefix) if prefix else ())
            )
            rows.append(
                {
                    "what": label,
                    "commands_per_s": summary["commands"] / summary["seconds"],
                    "owners_us": 1e6 * summary["cpu_seconds"] / summary["commands"],
                }
            )
        aggregates.reverse()  # each of the two is first in turn
    return rows[2:]  # the first two rows include the fold and earlier commands


if __name__ == "__main__":
    main()
