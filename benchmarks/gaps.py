"""The longest wait for an outcome while an owner is killed or taken over, as a client measures it."""

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.brokers import Brokers, three_brokers
from benchmarks.environment import Environment, new_environment, open_accounts
from benchmarks.faults import CASES, CASES_WITH_THREE_BROKERS, PEERS, Fault
from benchmarks.latency import ACCOUNTS, measure_waits, running_decider, warm_up
from benchmarks.report import report
from benchmarks.runs import MissedError, Runs, shards
from cqrs_cli.kafka.topics.topics import Topics

#: Seconds of steady work before the fault, and after the start of a run, so that its shards and its code are warm.
_QUIET_SECONDS = 5.0


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--rate", type=int, action="append", help="commands per second, 200 by default; may be repeated"
    )
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument(
        "--aggregates", type=int, default=ACCOUNTS, help="in prepared shards if more than that"
    )
    options.add_argument("--runs", type=int, default=5, help="times that each case is played")
    options.add_argument(
        "--seconds", type=float, default=25.0, help="of sending, at least; the fault comes after five"
    )
    options.add_argument(
        "--case", choices=[*CASES, *PEERS], action="append", help="only this one; may be repeated"
    )
    options.add_argument(
        "--warm-up", type=float, default=30.0, help="seconds at 1,000/s before the first case of a broker"
    )
    options.add_argument("--conf", action="append", default=[], help="of Spark, as of cqrs run")
    options.add_argument("--peer", type=Path, help="folder of the Kafka Streams peer (kstreams/run.sh in it)")
    arguments = options.parse_args()
    names = arguments.case or [*CASES, *(PEERS if arguments.peer else ())]
    if arguments.peer is None and any(name in PEERS for name in names):
        options.error("this case needs --peer")
    rows, missed_count = [], 0
    with new_environment() as environment:
        topics = environment.topics("bank_account", arguments.partitions)
        if any(_is_on_one_broker(name) for name in names):
            _prepare(environment, topics, arguments)
        for name in names:
            for rate in arguments.rate or [200]:
                case_arguments = argparse.Namespace(**{**vars(arguments), "rate": rate})
                for _ in range(arguments.runs):
                    try:
                        rows.append(_measure_case(environment, topics, case_arguments, name))
                        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
                    except MissedError as error:
                        print(f"{name} at {rate}/s has no figure: {error}", file=sys.stderr, flush=True)
                        missed_count += 1
    report("longest wait for an outcome, seconds", rows)
    sys.exit(1 if missed_count else 0)


def _is_on_one_broker(name: str) -> bool:
    return name not in (*CASES_WITH_THREE_BROKERS, *PEERS)


def _prepare(environment: Environment, topics: Topics, arguments: argparse.Namespace) -> None:
    """Open the accounts, and prepare a shard folder for each run, so that it folds only later records. The second
    folder is rebuilt, because no run trusts copied shards.

    The warm-up is necessary because a new broker needs more than one core to compile its code.
    """
    open_accounts(environment, topics, arguments.aggregates)
    if arguments.aggregates > ACCOUNTS:
        environment.cqrs("run", "bank_account", "--once", "--state-dir", shards(0))
        # A second `run --once` would have nothing to do.
        environment.cqrs("rebuild", "bank_account", "--state-dir", shards(1))
    with running_decider(environment, topics, arguments.partitions, "--state-dir", shards(0)):
        warm_up(environment, topics, arguments)


def _measure_case(
    environment: Environment, topics: Topics, arguments: argparse.Namespace, name: str
) -> dict[str, object]:
    case = {**CASES, **PEERS}[name]
    arguments = argparse.Namespace(**{**vars(arguments), "seconds": max(arguments.seconds, case.seconds)})
    with ExitStack() as stack:
        case_environment, case_topics, brokers = stack.enter_context(
            _case_environment(environment, topics, arguments, name)
        )
        runs = stack.enter_context(Runs(case_environment, case_topics, arguments, brokers))
        inject = case.prepare(runs)
        _, unanswered = measure_waits(
            case_environment,
            case_topics,
            argparse.Namespace(**{**vars(arguments), "seconds": _QUIET_SECONDS}),
        )
        if unanswered:
            raise MissedError(f"{unanswered} commands before the fault have no outcome")
        fault_thread, case_ended = stack.enter_context(ThreadPoolExecutor(1)), threading.Event()
        stack.callback(case_ended.set)
        fault = fault_thread.submit(
            _inject_after_quiet_time, inject, partial(case.has_happened, runs), runs, case_ended
        )
        latencies, unanswered = measure_waits(case_environment, case_topics, arguments, fault.done)
        measurements = fault.result()
        if not case.has_happened(runs):
            raise MissedError("the effects of the fault have gone again")
    return {
        "what": f"{name} at {arguments.rate}/s on {arguments.partitions}",
        "longest": latencies[-1],
        "p99": latencies[int(len(latencies) * 0.99)],
        "median": statistics.median(latencies),
        "unanswered": unanswered,
        **measurements,
    }


@contextmanager
def _case_environment(
    environment: Environment, topics: Topics, arguments: argparse.Namespace, name: str
) -> Iterator[tuple[Environment, Topics, Brokers | None]]:
    """Yield the environment of a case: cases that kill a broker, and cases of the peer, get topics of their own.

    The peer gets no accounts, because it needs no accounts.
    """
    if name in CASES_WITH_THREE_BROKERS:
        with three_brokers() as (environment, brokers):
            topics = environment.topics("bank_account", arguments.partitions)
            _prepare(environment, topics, arguments)
            yield environment, topics, brokers
    elif name in PEERS:
        yield (
            environment,
            environment.topics("bank_account", arguments.partitions, f"peer-{time.time_ns()}."),
            None,
        )
    else:
        yield environment, topics, None


def _inject_after_quiet_time(
    inject: Fault, has_happened: Callable[[], bool], runs: Runs, case_ended: threading.Event
) -> Mapping[str, float]:
    """Inject the fault after a while of steady work, unless the case has ended, and wait for the effects."""
    if case_ended.wait(_QUIET_SECONDS):
        return {}
    measurements = inject() or {}
    runs.wait_until("effect of the fault", lambda: case_ended.is_set() or has_happened())
    return measurements


if __name__ == "__main__":
    main()
