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
from benchmarks.environment import Arena, arena, open_accounts
from benchmarks.faults import CASES, ON_THREE, PEERS, Blow
from benchmarks.latency import ACCOUNTS, answers, deciding, warm_up
from benchmarks.report import report
from benchmarks.runs import MissedError, Runs, shards
from cqrs_cli.kafka.topics.topics import Topics

#: Seconds of steady work before the fault, and after the start of a run, so that its shards and its code are warm.
_QUIET = 5.0


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
        "--seconds", type=float, default=25.0, help="of sending, at least; the blow comes after five"
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
    rows, missed = [], 0
    with arena() as environment:
        topics = environment.topics("bank_account", arguments.partitions)
        if any(_is_on_one_broker(name) for name in names):
            _prepare(environment, topics, arguments)
        for name in names:
            for rate in arguments.rate or [200]:
                case_arguments = argparse.Namespace(**{**vars(arguments), "rate": rate})
                for _ in range(arguments.runs):
                    try:
                        rows.append(_play(environment, topics, case_arguments, name))
                        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
                    except MissedError as error:
                        print(f"{name} at {rate}/s has no figure: {error}", file=sys.stderr, flush=True)
                        missed += 1
    report("longest wait for an outcome, seconds", rows)
    sys.exit(1 if missed else 0)


def _is_on_one_broker(name: str) -> bool:
    return name not in (*ON_THREE, *PEERS)


def _prepare(environment: Arena, topics: Topics, arguments: argparse.Namespace) -> None:
    """Open the accounts, and prepare a shard folder for each run, so that it folds only later records. The second
    folder is rebuilt, because no run trusts copied shards.

    The warm-up is necessary because a new broker needs more than one core to compile its code.
    """
    open_accounts(environment, topics, arguments.aggregates)
    if arguments.aggregates > ACCOUNTS:
        environment.cqrs("run", "bank_account", "--once", "--state-dir", shards(0))
        # A second `run --once` would have nothing to do.
        environment.cqrs("rebuild", "bank_account", "--state-dir", shards(1))
    with deciding(environment, topics, arguments.partitions, "--state-dir", shards(0)):
        warm_up(environment, topics, arguments)


def _play(environment: Arena, topics: Topics, arguments: argparse.Namespace, name: str) -> dict[str, object]:
    case = {**CASES, **PEERS}[name]
    arguments = argparse.Namespace(**{**vars(arguments), "seconds": max(arguments.seconds, case.seconds)})
    with ExitStack() as stack:
        place = stack.enter_context(_place(environment, topics, arguments, name))
        runs = stack.enter_context(Runs(*place[:2], arguments, place[2]))
        blow = case.prepare(runs)
        _, unanswered = answers(*place[:2], argparse.Namespace(**{**vars(arguments), "seconds": _QUIET}))
        if unanswered:
            raise MissedError(f"{unanswered} commands of the quiet work before have no outcome")
        fault_thread, stopped = stack.enter_context(ThreadPoolExecutor(1)), threading.Event()
        stack.callback(stopped.set)
        struck = fault_thread.submit(_strike, blow, partial(case.came, runs), runs, stopped)
        latencies, unanswered = answers(*place[:2], arguments, struck.done)
        more = struck.result()
        if not case.came(runs):
            raise MissedError("what came has gone again")
    return {
        "what": f"{name} at {arguments.rate}/s on {arguments.partitions}",
        "longest": latencies[-1],
        "p99": latencies[int(len(latencies) * 0.99)],
        "median": statistics.median(latencies),
        "unanswered": unanswered,
        **more,
    }


@contextmanager
def _place(
    environment: Arena, topics: Topics, arguments: argparse.Namespace, name: str
) -> Iterator[tuple[Arena, Topics, Brokers | None]]:
    """Yield the environment of a case: cases that kill a broker, and cases of the peer, get topics of their own.

    The peer gets no accounts, because it needs no accounts.
    """
    if name in ON_THREE:
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


def _strike(
    blow: Blow, came: Callable[[], bool], runs: Runs, stopped: threading.Event
) -> Mapping[str, float]:
    """Inject the fault after a while of steady work, unless the case has ended, and wait for the effects."""
    if stopped.wait(_QUIET):
        return {}
    more = blow() or {}
    runs.wait_until("run that came", lambda: stopped.is_set() or came())
    return more


if __name__ == "__main__":
    main()
