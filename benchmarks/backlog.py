"""Backlog throughput: how fast `cqrs run --once` decides a backlog, from the first decision to the last commit."""

import argparse
import time
from contextlib import closing
from pathlib import Path

from benchmarks import peer
from benchmarks.environment import Arena, arena, deposit, new_id, open_accounts
from benchmarks.personal import NAME, add_marked_account, deposit_data
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
    options.add_argument("--runs", type=int, default=3, help="with a warm broker, after one with a cold one")
    options.add_argument("--peer", type=Path, help="folder of the Kafka Streams peer (kstreams/run.sh in it)")
    given = options.parse_args()
    rows = []
    with arena() as here:
        if given.personal:
            add_marked_account(here.root, given.personal)
        for number in range(given.runs + 1):
            broker = "cold" if number == 0 else "warm"  # the first round also warms the broker's JVM
            rows.append(_ours(here, given, f"r{number}.", broker))
            if given.personal:
                rows.append(_ours(here, given, f"m{number}.", broker, given.personal))
            for dedup in peer.DEDUP if given.peer else ():
                rows.append(_peer(here, given, f"p{number}{dedup}.", broker, dedup))
    report("backlog", rows)


def _filled(here: Arena, given: argparse.Namespace, prefix: str, personal: bool = False) -> Topics:
    topics = here.topics(NAME if personal else "bank_account", given.partitions, prefix, personal)
    open_accounts(here, topics, given.accounts)
    return topics


def _ours(
    here: Arena, given: argparse.Namespace, prefix: str, warmth: str, fields: int = 0
) -> dict[str, object]:
    """Measure cqrs. `fields`: the number of personal fields in each command."""
    topics = _filled(here, given, prefix, personal=fields > 0)
    run = ("run", topics.aggregate, "--once", "--topic-prefix", prefix)
    here.cqrs(*run)
    if given.remembered:
        _remember(here, given, prefix)
    deposit(here, topics, given.commands, given.accounts, given.ids, deposit_data(fields))
    broker = here.broker_cpu()
    done = here.cqrs(*run)
    broker = here.broker_cpu() - broker
    assert done["accepted"] == given.commands, done
    each = 1e6 / given.commands
    return {
        "what": f"cqrs{_special(given, fields)}, {warmth} broker",
        "commands_per_s": given.commands / done["seconds"],
        "cpu_us_per_command": (done["cpu_seconds"] + broker) * each,
        "owners_us": done["cpu_seconds"] * each,
        "broker_us": broker * each,
    }


def _special(given: argparse.Namespace, fields: int) -> str:
    """Describe ids and personal fields that differ from the default figures."""
    kind = "" if given.ids == "uuid7" else f", {given.ids} ids"
    kind += f", {fields} personal" if fields else ""
    return kind + (f", {given.remembered:,} remembered a shard" if given.remembered else "")


def _remember(here: Arena, given: argparse.Namespace, prefix: str) -> None:
    """Fill each shard with the ids that decisions of this many commands would leave."""
    settings = load_settings({"topic_prefix": prefix}, here.root)
    aggregate = load_aggregate("bank_account", settings.aggregates, settings.root)
    plan = prepare(settings, here.connection, {"bank_account": aggregate})
    now = time.time_ns() // 1_000_000
    for partition in plan.partitions():
        with closing(open_shard(plan.shard(partition), plan.identity(partition, aggregate)).store) as store:
            for start in range(0, given.remembered, 20_000):
                ids = {
                    (f"acc-{n % given.accounts}", new_id(given.ids)): DedupEntry(now, n, "accepted", 1, 1, 0)
                    for n in range(start, start + 20_000)
                }
                positions = store.positions()
                store.apply(WriteBatch(store.token(), positions, positions._replace(clock=now), {}, ids))


def _peer(here: Arena, given: argparse.Namespace, prefix: str, warmth: str, dedup: str) -> dict[str, object]:
    topics = _filled(here, given, prefix)
    deposit(here, topics, given.commands, given.accounts, given.ids)
    total = given.commands + given.accounts
    broker = here.broker_cpu()
    figures = peer.backlog(here, given.peer, topics, total, dedup)
    broker = here.broker_cpu() - broker
    return {
        "what": f"{peer.name_of(dedup)}, {warmth} broker",
        "commands_per_s": figures["commands_per_s"],
        "cpu_us_per_command": (figures["cpu_s"] + broker) * 1e6 / total,
        "owners_us": figures["cpu_s"] * 1e6 / total,
        "broker_us": broker * 1e6 / total,
    }


if __name__ == "__main__":
    main()
