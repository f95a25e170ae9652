"""Time until a machine has decided its first command: with its shards, with checkpoints and a tail, with the log alone.

The owners of all partitions run in one process, without Spark. `--whole` also measures `cqrs run`, from its start until
a waiting command has its outcome. A machine with its own shards folds nothing: the difference counts.
"""

import argparse
import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.environment import Arena, arena, command, deposit, open_accounts
from benchmarks.report import report
from cqrs_cli.deciding.checkpoints.source import checkpoint_source
from cqrs_cli.deciding.checkpoints.write import write_checkpoint
from cqrs_cli.deciding.prepare import prepare
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.registry import load
from cqrs_cli.runs.task import own_partitions
from cqrs_cli.settings.settings import load_settings


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=1_000_000, help="below the checkpoints")
    options.add_argument("--aggregates", type=int, default=250_000)
    options.add_argument("--tail", type=int, default=10_000, help="events after them")
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--whole", action="store_true", help="measure cqrs run, too")
    arguments = options.parse_args()
    rows: list[dict[str, object]] = []
    with arena() as environment:
        topics = environment.topics("bank_account", arguments.partitions)
        open_accounts(environment, topics, arguments.aggregates)
        deposit(environment, topics, arguments.events - arguments.aggregates, arguments.aggregates)
        environment.cqrs("run", "bank_account", "--once")
        copies = environment.root / "copies"
        rows.append(_written(environment, copies))
        deposit(environment, topics, arguments.tail, arguments.aggregates)
        environment.cqrs("run", "bank_account", "--once")
        locations = {
            "its own shards": (environment.root / ".cqrs" / "state", None),
            "checkpoints and the tail": (environment.root / "fresh", copies),
            "the log alone": (environment.root / "fresh", None),
        }
        for what, (state, stored) in locations.items():
            rows += [
                _measured(environment, topics, arguments, what, state, stored) for _ in range(arguments.runs)
            ]
    report(f"first decision after {arguments.events:,} events of {arguments.aggregates:,} aggregates", rows)


def _written(environment: Arena, copies: Path) -> dict[str, object]:
    """Write checkpoints of all shards, and measure the time."""
    settings = load_settings({}, environment.root)
    aggregate = load("bank_account", settings.aggregates, settings.root)
    plan = replace(
        prepare(settings, environment.connection, {"bank_account": aggregate}), checkpoints=str(copies)
    )
    began, size = time.perf_counter(), 0
    for partition in plan.partitions():
        checkpoint = write_checkpoint(checkpoint_source(plan, partition, aggregate))
        assert checkpoint is not None, partition
        size += checkpoint.size
    return {"what": "writing the checkpoints", "seconds": time.perf_counter() - began, "mb": size / 1e6}


def _measured(
    environment: Arena,
    topics: Topics,
    arguments: argparse.Namespace,
    what: str,
    state: Path,
    copies: Path | None,
) -> dict[str, object]:
    shutil.rmtree(environment.root / "fresh", ignore_errors=True)
    deposit(environment, topics, 1, 1)
    row: dict[str, object] = {"what": what, "owners_s": _owners(environment, state, copies)}
    if arguments.whole:
        shutil.rmtree(environment.root / "fresh", ignore_errors=True)
        row["command_s"] = _first_decision(environment, state, copies)
    return row


def _owners(environment: Arena, state: Path, copies: Path | None) -> float:
    """Return the seconds of the owners, from the opening of their shards until the last decision and their close."""
    settings = load_settings({}, environment.root)
    aggregates = {"bank_account": load("bank_account", settings.aggregates, settings.root)}
    plan = replace(
        prepare(settings, environment.connection, aggregates, once=True),
        state_dir=state,
        checkpoints="" if copies is None else str(copies),
    )
    began = time.perf_counter()
    for ending in own_partitions(plan, plan.partitions(), 0):
        assert ending.error is None, ending
    return time.perf_counter() - began


def _first_decision(here: Arena, state: Path, copies: Path | None = None) -> float:
    """Return the seconds from the start of a run until a waiting command has its outcome."""
    environment = os.environ | ({} if copies is None else {"CQRS_CHECKPOINT_LOCATION": str(copies)})
    began = time.perf_counter()
    run = subprocess.Popen(
        command("run", "bank_account", "-q", "--state-dir", str(state)),
        cwd=here.root,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    try:
        here.cqrs("send", "bank_account", "acc-1", "Deposit", "amount:=5", "--wait", "--timeout", "1h")
        return time.perf_counter() - began
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait()


if __name__ == "__main__":
    main()
