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
    given = options.parse_args()
    rows: list[dict[str, object]] = []
    with arena() as here:
        topics = here.topics("bank_account", given.partitions)
        open_accounts(here, topics, given.aggregates)
        deposit(here, topics, given.events - given.aggregates, given.aggregates)
        here.cqrs("run", "bank_account", "--once")
        copies = here.root / "copies"
        rows.append(_written(here, copies))
        deposit(here, topics, given.tail, given.aggregates)
        here.cqrs("run", "bank_account", "--once")
        places = {
            "its own shards": (here.root / ".cqrs" / "state", None),
            "checkpoints and the tail": (here.root / "fresh", copies),
            "the log alone": (here.root / "fresh", None),
        }
        for what, (state, stored) in places.items():
            rows += [_measured(here, topics, given, what, state, stored) for _ in range(given.runs)]
    report(f"first decision after {given.events:,} events of {given.aggregates:,} aggregates", rows)


def _written(here: Arena, copies: Path) -> dict[str, object]:
    """Write checkpoints of all shards, and measure the time."""
    settings = load_settings({}, here.root)
    aggregate = load("bank_account", settings.aggregates, settings.root)
    plan = replace(prepare(settings, here.connection, {"bank_account": aggregate}), checkpoints=str(copies))
    began, size = time.perf_counter(), 0
    for partition in plan.partitions():
        made = write_checkpoint(checkpoint_source(plan, partition, aggregate))
        assert made is not None, partition
        size += made.size
    return {"what": "writing the checkpoints", "seconds": time.perf_counter() - began, "mb": size / 1e6}


def _measured(
    here: Arena, topics: Topics, given: argparse.Namespace, what: str, state: Path, copies: Path | None
) -> dict[str, object]:
    shutil.rmtree(here.root / "fresh", ignore_errors=True)
    deposit(here, topics, 1, 1)
    row: dict[str, object] = {"what": what, "owners_s": _owners(here, state, copies)}
    if given.whole:
        shutil.rmtree(here.root / "fresh", ignore_errors=True)
        row["command_s"] = _first_decision(here, state, copies)
    return row


def _owners(here: Arena, state: Path, copies: Path | None) -> float:
    """Return the seconds of the owners, from the opening of their shards until the last decision and their close."""
    settings = load_settings({}, here.root)
    aggregates = {"bank_account": load("bank_account", settings.aggregates, settings.root)}
    plan = replace(
        prepare(settings, here.connection, aggregates, once=True),
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
