"""Backlog throughput: how fast `cqrs run --once` decides a backlog, from the first decision to the last commit."""

import argparse
import time
from contextlib import closing
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
from benchmarks.report import report
from cqrs_cli.core.stored import DedupEntry
from cqrs_cli.deciding.prepare import prepare
from cqrs_cli.kafka.topics.topics import Topics
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
    options.add_argument("--peer", type=Path, help="folder of the Kafka Streams peer (kstreams/run.sh in it)")
    arguments = options.parse_args()
    rows = []
    with new_environment() as environment:
        if arguments.personal:
            add_personal_account(environment.root, arguments.personal)
        for number in range(arguments.runs + 1):
            broker = "cold" if number == 0 else "warm"  # the first round also warms the broker's JVM
            rows.append(_measure_cqrs(environment, arguments, f"r{number}.", broker))
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
) -> dict[str, object]:
    """Measure cqrs. `fields`: the number of personal fields in each command. `sampled`: the share of commands with
    spans; None without a collector.
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
    summary = environment.cqrs(*run)
    broker_seconds, wire_bytes = environment.broker_cpu() - broker_before, loopback_bytes() - bytes_before
    assert summary["accepted"] == arguments.commands, summary
    us_per_command = 1e6 / arguments.commands
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
