"""Memory: the largest anonymous memory of an owner with millions of aggregates in its shards.

`--within MB` also measures the rate of owners whose process may use no more than this memory, page cache included, and
the rate without a limit. With the limit, parts of large shards are read from the disk again and again. Requires root.
"""

import argparse
import multiprocessing
import multiprocessing.connection
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.environment import Environment, command, new_environment, peak_worker_memory, send_deposits
from benchmarks.report import report
from cqrs_cli.core.stored import StoredState
from cqrs_cli.deciding.prepare import prepare
from cqrs_cli.kafka.topics.partitioner import producer_partition
from cqrs_cli.registry import load as load_aggregate
from cqrs_cli.runs.task import own_partitions
from cqrs_cli.settings.settings import load_settings
from cqrs_cli.state.shard import open_shard
from cqrs_cli.state.store import WriteBatch


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--aggregates", type=int, default=5_000_000, help="number of aggregates in the shards of one owner"
    )
    options.add_argument(
        "--state-bytes", type=int, default=3, help="length of the owner's name in each account"
    )
    options.add_argument("--commands", type=int, default=500_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument(
        "--within", type=int, metavar="MB", help="also measure owners that may use only this much memory"
    )
    arguments = options.parse_args()
    rows: list[dict[str, object]] = []
    with new_environment() as environment:
        topics = environment.topics("bank_account", arguments.partitions)
        _fill(environment, arguments)
        for limit in (None, arguments.within) if arguments.within else ():
            send_deposits(environment, topics, arguments.commands, arguments.aggregates)
            rows.append(_measure_with_limit(environment, arguments, limit))
        send_deposits(environment, topics, arguments.commands, arguments.aggregates)
        peak = _peak_memory(environment, arguments)
    aggregates = f"{arguments.aggregates:,} aggregates, one owner of all"
    rows.append({"what": aggregates, "state_bytes": arguments.state_bytes, "anonymous_mb": peak / 1e6})
    report("memory", rows)


def _measure_with_limit(
    environment: Environment, arguments: argparse.Namespace, limit: int | None
) -> dict[str, object]:
    """Measure the rate of owners of all partitions, in a process that starts without cached pages of the shards."""
    size = sum(_drop_from_page_cache(file) for file in (environment.root / ".cqrs").rglob("data.mdb"))
    with _control_group(limit) as procs_file:
        pipe, child_pipe = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=_own_partitions, args=(environment, procs_file, child_pipe)
        )
        process.start()
        seconds = pipe.recv()
        process.join()
    label = "owners with all memory" if limit is None else f"owners within {limit} MB"
    return {"what": label, "shards_mb": size / 1e6, "commands_per_s": arguments.commands / seconds}


def _drop_from_page_cache(file: Path) -> int:
    """Drop a file from the page cache; return its bytes on disk."""
    with file.open("rb") as opened_file:
        os.fsync(opened_file.fileno())
        os.posix_fadvise(opened_file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return 512 * file.stat().st_blocks


@contextmanager
def _control_group(limit: int | None) -> Iterator[Path | None]:
    """Yield the file that adds processes to a control group (v1 or v2) with this limit in MB; None without a limit."""
    if limit is None:
        yield None
        return
    memory_controller = Path("/sys/fs/cgroup/memory")
    folder = (
        memory_controller if memory_controller.is_dir() else memory_controller.parent
    ) / f"cqrs-{os.getpid()}"
    folder.mkdir()
    try:
        limit_file = "memory.limit_in_bytes" if memory_controller.is_dir() else "memory.max"
        (folder / limit_file).write_text(str(limit << 20))
        yield folder / "cgroup.procs"
    finally:
        folder.rmdir()


def _own_partitions(
    environment: Environment, procs_file: Path | None, pipe: "multiprocessing.connection.Connection"
) -> None:
    if procs_file is not None:
        procs_file.write_text(str(os.getpid()))
    settings = load_settings({}, environment.root)
    aggregates = {"bank_account": load_aggregate("bank_account", settings.aggregates, settings.root)}
    plan = replace(
        prepare(settings, environment.connection, aggregates, once=True),
        state_dir=environment.root / ".cqrs" / "state",
    )
    start = time.perf_counter()
    for result in own_partitions(plan, plan.partitions(), 0):
        assert result.error is None, result
    pipe.send(time.perf_counter() - start)


def _fill(environment: Environment, arguments: argparse.Namespace) -> None:
    """Write accounts directly into the shards, as if an owner had folded their events."""
    settings = load_settings({}, environment.root)
    aggregate = load_aggregate("bank_account", settings.aggregates, settings.root)
    plan = prepare(settings, environment.connection, {"bank_account": aggregate})
    owner = b"a" * arguments.state_bytes
    state = aggregate.encode_state(aggregate.decode_state(b'{"owner":"%s","balance":100}' % owner))
    account_partitions = [
        producer_partition("murmur2", f"acc-{n}".encode(), arguments.partitions)
        for n in range(arguments.aggregates)
    ]
    for partition in plan.partitions():
        with closing(
            open_shard(plan.shard_folder(partition), plan.identity(partition, aggregate)).store
        ) as store:
            account_numbers = [n for n, number in enumerate(account_partitions) if number == partition[1]]
            for start in range(0, len(account_numbers), 20_000):
                states = {
                    f"acc-{n}": StoredState(1, 0, 0, state) for n in account_numbers[start : start + 20_000]
                }
                store.apply(WriteBatch(store.token(), store.positions(), store.positions(), states))


def _peak_memory(environment: Environment, arguments: argparse.Namespace) -> int:
    """Return the largest RssAnon of any Python worker while one task owns all partitions and decides the backlog."""
    run_command = command("run", "bank_account", "--once", "--master", "local[1]")
    with subprocess.Popen(run_command, cwd=environment.root) as run:
        return peak_worker_memory(run)


if __name__ == "__main__":
    main()
