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

from benchmarks.environment import Arena, arena, deposit, open_accounts
from benchmarks.flow import Flow, Waiting
from benchmarks.latency import deciding
from benchmarks.report import report
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.deciding.repartition import repartition
from cqrs_cli.kafka.topics.topics import Topics
from tests.support.traffic import StaleProducer

_ONCE = ("run", "bank_account", "--once")

#: The number of clients that wait for each outcome.
_WAITING = 8

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
    with arena() as environment:
        topics = environment.topics("bank_account", arguments.partitions)
        open_accounts(environment, topics, arguments.aggregates)
        environment.cqrs(*_ONCE, "--state-dir", _shards(arguments.partitions))
        rows, count, flow = _growing(environment, topics, arguments)
        report("longest wait for an outcome while partitions grow, seconds", rows)
        if arguments.backlog:
            steady = _steady(environment, topics, arguments, count, flow)
            report("an aggregate that has grown beside one that never did", steady)


def _growing(
    environment: Arena, topics: Topics, arguments: argparse.Namespace
) -> tuple[list[Row], int, Flow]:
    """Repartition under load; return a row for each phase, the final number of partitions, and the sent commands."""
    count = arguments.partitions
    with ExitStack() as stack:
        stack.enter_context(_run(environment, topics, count))
        flow = Flow(environment, topics, arguments.rate, arguments.aggregates, count)
        waiting = _waiting(environment, topics, count)
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
                flow.look_again()
            stack.enter_context(_run(environment, topics, count))
            flow.look_again()
            time.sleep(arguments.seconds)
        for client in waiting:
            client.stopping.set()
            client.join(120)
        flow.finish(120)
    return [*_phases(flow, phases), _verdict(flow, waiting)], count, flow


@contextmanager
def _run(environment: Arena, topics: Topics, count: int) -> Iterator[None]:
    """Start a run on this number of partitions; it takes over from the previous run."""
    with deciding(environment, topics, count, "--state-dir", _shards(count)):
        yield


def _shards(count: int) -> str:
    """Return the folder of the shards for this number of partitions."""
    return f"shards-{count}"


def _prepare(environment: Arena, count: int) -> None:
    """Fold the shards of the new partitions while the previous run continues."""
    environment.cqrs("rebuild", "bank_account", "--partitions", str(count), "--state-dir", _shards(count))


def _waiting(environment: Arena, topics: Topics, count: int) -> list[Waiting]:
    def sender(number: int) -> CommandProducer:
        return (
            StaleProducer(environment.connection, count)
            if number % 2
            else CommandProducer(environment.connection, "murmur2")
        )

    waits = [Waiting(environment, topics, number, partial(sender, number)) for number in range(_WAITING)]
    for client in waits:
        client.start()
    return waits


def _phases(flow: Flow, phases: list[tuple[str, float]]) -> Iterator[Row]:
    """Yield a row for each phase: the waits of the commands sent in it, by the partition that decided them."""
    ends = [*(began for _, began in phases[1:]), float("inf")]
    for (what, began), end in zip(phases, ends, strict=True):
        waits = defaultdict[int, list[float]](list)
        for number, final in flow.done.items():
            if began <= flow.sent[number] < end:
                waits[final.partition].append(final.at - flow.sent[number])
        longest = [max(outcomes) for outcomes in waits.values()]
        yield {
            "what": what,
            "longest": max(longest),
            "longest_of_the_median_partition": statistics.median(longest),
            "median": statistics.median(outcome for outcomes in waits.values() for outcome in outcomes),
        }


def _verdict(flow: Flow, waiting: list[Waiting]) -> Row:
    errors = [client.error for client in waiting if client.error is not None]
    return {
        "what": f"{len(flow.sent):,} sent, and {sum(client.sent for client in waiting):,} by clients that wait",
        "lost": len(flow.sent) - len(flow.done),
        "twice": flow.twice,
        "overtaken": flow.overtaken(),
        "wrong_for_clients_that_wait": sum(client.wrong for client in waiting) + len(errors),
    }


def _steady(
    environment: Arena, topics: Topics, arguments: argparse.Namespace, count: int, flow: Flow
) -> list[Row]:
    """Measure the backlog rate of both aggregates, in turn. Both have decided equal commands before, because remembered
    ids cost time.
    """
    other = environment.topics("bank_account", count, "even.")
    open_accounts(environment, other, arguments.aggregates)
    flow.repeat(other)
    both = [("grown", topics, ""), ("with these from the start", other, "even.")]
    rows = []
    for _ in range(arguments.runs + 1):
        for what, name, prefix in both:
            deposit(environment, name, arguments.backlog, arguments.aggregates)
            state = f"steady-{prefix}{count}"
            summary = environment.cqrs(
                *_ONCE, "--state-dir", state, *(("--topic-prefix", prefix) if prefix else ())
            )
            rows.append(
                {
                    "what": what,
                    "commands_per_s": summary["commands"] / summary["seconds"],
                    "owners_us": 1e6 * summary["cpu_seconds"] / summary["commands"],
                }
            )
        both.reverse()  # each of the two is first in turn
    return rows[2:]  # the first two rows include the fold and earlier commands


if __name__ == "__main__":
    main()
