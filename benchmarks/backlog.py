"""Backlog throughput: how fast `cqrs run --once` decides a backlog, from the first decision to the last commit."""

import argparse
import time
from contextlib import closing, nullcontext
from pathlib import Path

from benchmarks import peer
from benchmarks.collector import collector
from benchmarks.environment import (
    Environment,
    loopback_bytes,
    new_environment,
    new_id,
    open_accounts,
    send_deposits,
)
from benchmarks.personal import NAME, add_personal_account, deposit_data
from benchmarks.processor_time import ProcessorTimes
from benchmarks.report import medians, report
from cqrs_cli.core.stored import DedupEntry
from cqrs_cli.deciding.prepare import prepare
from cqrs_cli.kafka.offsets import committed_offsets_now
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import parse_claim
from cqrs_cli.registry import load as load_aggregate
from cqrs_cli.settings.settings import load_settings
from cqrs_cli.state.shard import open_shard
from cqrs_cli.state.store import WriteBatch


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--commands", type=int, default=1_000_000)
    options.add_argument("--accounts", type=int, default=20_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--ids", choices=("uuid7", "random"), default="uuid7")
    options.add_argument("--remembered", type=int, default=0, help="ids in each shard before it begins")
    options.add_argument("--personal", type=int, default=0, help="in turn, with so many personal fields")
    options.add_argument(
        "--sampled", type=float, help="in turn, with a collector, and this percentage sampled"
    )
    options.add_argument("--runs", type=int, default=3, help="with a warm broker, after one with a cold one")
    options.add_argument(
        "--threads",
        action="store_true",
        help="report processor time by process, kind of thread and phase, too",
    )
    options.add_argument("--peer", type=Path, help="folder of the Kafka Streams peer (kstreams/run.sh in it)")
    arguments = options.parse_args()
    rows: list[dict[str, object]] = []
    thread_rows: list[dict[str, object]] | None = [] if arguments.threads else None
    with new_environment() as environment:
        if arguments.personal:
            add_personal_account(environment.root, arguments.personal)
        for number in range(arguments.runs + 1):
            broker = "cold" if number == 0 else "warm"  # the first round also warms the broker's JVM
            rows.append(_measure_cqrs(environment, arguments, f"r{number}.", broker, thread_rows=thread_rows))
            if arguments.personal:
                rows.append(_measure_cqrs(environment, arguments, f"m{number}.", broker, arguments.personal))
            if arguments.sampled is not None:
                with collector():
                    rows.append(_measure_cqrs(environment, arguments, f"u{number}.", broker, sampled=0.0))
                    share = arguments.sampled / 100
                    rows.append(_measure_cqrs(environment, arguments, f"s{number}.", broker, sampled=share))
            for dedup in peer.DEDUP if arguments.peer else ():
                rows.append(_measure_peer(environment, arguments, f"p{number}{dedup}.", broker, dedup))
    report("backlog", rows)
    if thread_rows is not None:
        report("processor time of cqrs in µs per command", medians(thread_rows) or thread_rows)


def _topics_with_accounts(
    environment: Environment, arguments: argparse.Namespace, prefix: str, personal: bool = False
) -> Topics:
    topics = environment.topics(NAME if personal else "bank_account", arguments.partitions, prefix, personal)
    open_accounts(environment, topics, arguments.accounts)
    return topics


def _measure_cqrs(
    environment: Environment,
    arguments: argparse.Namespace,
    prefix: str,
    warmth: str,
    fields: int = 0,
    sampled: float | None = None,
    thread_rows: list[dict[str, object]] | None = None,
) -> dict[str, object]:
    """Measure cqrs. `fields`: the number of personal fields in each command. `sampled`: the share of commands with
    spans; None without a collector. `thread_rows` gets the rows of `_thread_rows`; None: threads are not sampled.
    """
    topics = _topics_with_accounts(environment, arguments, prefix, personal=fields > 0)
    run = ("run", topics.aggregate, "--once", "--topic-prefix", prefix)
    environment.cqrs(*run)
    if arguments.remembered:
        _write_remembered_ids(environment, arguments, prefix)
    send_deposits(
        environment,
        topics,
        arguments.commands,
        arguments.accounts,
        arguments.ids,
        deposit_data(fields),
        sampled or 0.0,
    )
    broker_before, bytes_before = environment.broker_cpu(), loopback_bytes()
    times = ProcessorTimes(environment.broker_pid)
    with nullcontext() if thread_rows is None else times:
        summary = environment.cqrs(*run)
    broker_seconds, wire_bytes = environment.broker_cpu() - broker_before, loopback_bytes() - bytes_before
    assert summary["accepted"] == arguments.commands, summary
    us_per_command = 1e6 / arguments.commands
    if thread_rows is not None:
        thread_rows += _thread_rows(environment, arguments, topics, times)
    return {
        "what": f"cqrs{_description(arguments, fields, sampled)}, {warmth} broker",
        "commands_per_s": arguments.commands / summary["seconds"],
        "cpu_us_per_command": (summary["cpu_seconds"] + broker_seconds) * us_per_command,
        "owners_us": summary["cpu_seconds"] * us_per_command,
        "broker_us": broker_seconds * us_per_command,
        "wire_bytes_per_command": wire_bytes / arguments.commands,
    }


def _description(arguments: argparse.Namespace, fields: int, sampled: float | None) -> str:
    """Describe ids, personal fields and spans that differ from the default figures."""
    description = "" if arguments.ids == "uuid7" else f", {arguments.ids} ids"
    description += f", {fields} personal" if fields else ""
    description += "" if sampled is None else f", {sampled:.1%} sampled"
    return description + (f", {arguments.remembered:,} remembered a shard" if arguments.remembered else "")


def _thread_rows(
    environment: Environment, arguments: argparse.Namespace, topics: Topics, times: ProcessorTimes
) -> list[dict[str, object]]:
    """Return the processor time of each kind of threads, in µs per command: before the first decision, from then to the
    last commit, and afterwards. The claims contain both times.
    """
    offsets = committed_offsets_now(environment.connection, topics, range(arguments.partitions))
    counts = [claim.counts for offset in offsets.values() if (claim := parse_claim(offset.metadata))]
    first, last = min(count.first for count in counts), max(count.last for count in counts)
    rows: list[dict[str, object]] = []
    for kind, seconds in sorted(times.by_phase(first / 1000, last / 1000).items()):
        start, deciding, end = (1e6 * phase_seconds / arguments.commands for phase_seconds in seconds)
        total = start + deciding + end
        rows.append({"what": ", ".join(kind), "start": start, "deciding": deciding, "end": end, "all": total})
    return rows


def _write_remembered_ids(environment: Environment, arguments: argparse.Namespace, prefix: str) -> None:
    """Fill each shard with the ids that decisions of this many commands would leave."""
    settings = load_settings({"topic_prefix": prefix}, environment.root)
    aggregate = load_aggregate("bank_account", settings.aggregates, settings.root)
    plan = prepare(settings, environment.connection, {"bank_account": aggregate})
    now = time.time_ns() // 1_000_000
    for partition in plan.partitions():
        with closing(
            open_shard(plan.shard_folder(partition), plan.identity(partition, aggregate)).store
        ) as store:
            for start in range(0, arguments.remembered, 20_000):
                ids = {
                    (f"acc-{n % arguments.accounts}", new_id(arguments.ids)): DedupEntry(
                        now, n, "accepted", 1, 1, 0
                    )
                    for n in range(start, start + 20_000)
                }
                positions = store.positions()
                store.apply(WriteBatch(store.token(), positions, positions._replace(clock=now), {}, ids))


def _measure_peer(
    environment: Environment, arguments: argparse.Namespace, prefix: str, warmth: str, dedup: str
) -> dict[str, object]:
    topics = _topics_with_accounts(environment, arguments, prefix)
    send_deposits(environment, topics, arguments.commands, arguments.accounts, arguments.ids)
    total = arguments.commands + arguments.accounts
    broker_before, bytes_before = environment.broker_cpu(), loopback_bytes()
    figures = peer.backlog(environment, arguments.peer, topics, total, dedup)
    broker_seconds, wire_bytes = environment.broker_cpu() - broker_before, loopback_bytes() - bytes_before
    return {
        "what": f"{peer.name_of(dedup)}, {warmth} broker",
        "commands_per_s": figures["commands_per_s"],
        "cpu_us_per_command": (figures["cpu_s"] + broker_seconds) * 1e6 / total,
        "owners_us": figures["cpu_s"] * 1e6 / total,
        "broker_us": broker_seconds * 1e6 / total,
        "wire_bytes_per_command": wire_bytes / total,
    }


if __name__ == "__main__":
    main()
