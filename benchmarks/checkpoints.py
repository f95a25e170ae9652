"""Time until a machine has decided its first command: with its shards, with checkpoints and a tail, with the log alone.

The owners of all partitions run in one process, without Spark. `--whole` also measures `cqrs run`, from its start until
a waiting command has its outcome. A machine with its own shards folds nothing, so the difference from its time is the
time to build the shards.
"""

import argparse
import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.environment import Environment, command, new_environment, open_accounts, send_deposits
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
    with new_environment() as environment:
        topics = environment.topics("bank_account", arguments.partitions)
        open_accounts(environment, topics, arguments.aggregates)
        send_deposits(environment, topics, arguments.events - arguments.aggregates, arguments.aggregates)
        environment.cqrs("run", "bank_account", "--once")
        checkpoint_folder = environment.root / "copies"
        rows.append(_write_checkpoints(environment, checkpoint_folder))
        send_deposits(environment, topics, arguments.tail, arguments.aggregates)
        environment.cqrs("run", "bank_account", "--once")
        locations = {
            "its own shards": (environment.root / ".cqrs" / "state", None),
            "checkpoints and the tail": (environment.root / "fresh", checkpoint_folder),
            "the log alone": (environment.root / "fresh", None),
        }
        for label, (state, source) in locations.items():
            rows += [
                _measure(environment, topics, arguments, label, state, source) for _ in range(arguments.runs)
            ]
    report(f"first decision after {arguments.events:,} events of {arguments.aggregates:,} aggregates", rows)


def _write_checkpoints(environment: Environment, checkpoint_folder: Path) -> dict[str, object]:
    """Write checkpoints of all shards, and measure the time."""
    settings = load_settings({}, environment.root)
    aggregate = load("bank_account", settings.aggregates, settings.root)
    plan = replace(
        prepare(settings, environment.connection, {"bank_account": aggregate}),
        checkpoints=str(checkpoint_folder),
    )
    start, size = time.perf_counter(), 0
    for partition in plan.partitions():
        checkpoint = write_checkpoint(checkpoint_source(plan, partition, aggregate))
        assert checkpoint is not None, partition
        size += checkpoint.size
    return {"what": "writing the checkpoints", "seconds": time.perf_counter() - start, "mb": size / 1e6}


def _measure(
    environment: Environment,
    topics: Topics,
    arguments: argparse.Namespace,
    label: str,
    state: Path,
    checkpoint_folder: Path | None,
) -> dict[str, object]:
    shutil.rmtree(environment.root / "fresh", ignore_errors=True)
    send_deposits(environment, topics, 1, 1)
    row: dict[str, object] = {
        "what": label,
        "owners_s": _owner_seconds(environment, state, checkpoint_folder),
    }
    if arguments.whole:
        shutil.rmtree(environment.root / "fresh", ignore_errors=True)
        row["command_s"] = _first_decision(environment, state, checkpoint_folder)
    return row


def _owner_seconds(environment: Environment, state: Path, checkpoint_folder: Path | None) -> float:
    """Return the seconds of the owners, from the opening of their shards until the last decision and their close."""
    settings = load_settings({}, environment.root)
    aggregates = {"bank_account": load("bank_account", settings.aggregates, settings.root)}
    plan = replace(
        prepare(settings, environment.connection, aggregates, once=True),
        state_dir=state,
        checkpoints="" if checkpoint_folder is None else str(checkpoint_folder),
    )
    start = time.perf_counter()
    for result in own_partitions(plan, plan.partitions(), 0):
        assert result.error is None, result
    return time.perf_counter() - start


def _first_decision(environment: Environment, state: Path, checkpoint_folder: Path | None = None) -> float:
    """Return the seconds from the start of a run until a waiting command has its outcome."""
    variables = os.environ | (
        {} if checkpoint_folder is None else {"CQRS_CHECKPOINT_LOCATION": str(checkpoint_folder)}
    )
    start = time.perf_counter()
    run = subprocess.Popen(
        command("run", "bank_account", "-q", "--state-dir", str(state)),
        cwd=environment.root,
        env=variables,
        stdout=subprocess.DEVNULL,
    )
    try:
        environment.cqrs("send", "bank_account", "acc-1", "Deposit", "amount:=5", "--wait", "--timeout", "1h")
        return time.perf_counter() - start
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait()


if __name__ == "__main__":
    main()
