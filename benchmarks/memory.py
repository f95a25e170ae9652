"""Memory: an owner's anonymous memory, at its greatest, with millions of aggregates in its shards."""

import argparse
import subprocess
from contextlib import closing

from benchmarks.arena import Arena, arena, command, deposit, greatest_memory
from benchmarks.report import report
from cqrs_cli.core.stored import StoredState
from cqrs_cli.jobs.run.prepare import prepare
from cqrs_cli.kafka.topics.partitioner import target
from cqrs_cli.registry import load as load_aggregate
from cqrs_cli.settings.settings import load_settings
from cqrs_cli.state.shard import open_shard
from cqrs_cli.state.store import WriteBatch


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--aggregates", type=int, default=5_000_000, help="in the shards of one owner")
    options.add_argument("--state-bytes", type=int, default=3, help="in each account's owner")
    options.add_argument("--commands", type=int, default=500_000)
    options.add_argument("--partitions", type=int, default=4)
    given = options.parse_args()
    with arena() as here:
        topics = here.topics("bank_account", given.partitions)
        _fill(here, given)
        deposit(here, topics, given.commands, given.aggregates)
        greatest = _greatest(here, given)
    report(
        "memory",
        [
            {
                "what": f"{given.aggregates:,} aggregates, one owner of all",
                "state_bytes": given.state_bytes,
                "anonymous_mb": greatest / 1e6,
            }
        ],
    )


def _fill(here: Arena, given: argparse.Namespace) -> None:
    """Accounts straight into the shards, as folding their events would have left them."""
    settings = load_settings({}, here.root)
    aggregate = load_aggregate("bank_account", settings.aggregates, settings.root)
    plan = prepare(settings, here.connection, {"bank_account": aggregate})
    owner = b"a" * given.state_bytes
    state = aggregate.encode_state(aggregate.decode_state(b'{"owner":"%s","balance":100}' % owner))
    homes = [target("murmur2", f"acc-{n}".encode(), given.partitions) for n in range(given.aggregates)]
    for partition in plan.partitions():
        with closing(open_shard(plan.shard(partition), plan.identity(partition, aggregate)).store) as store:
            mine = [n for n, home in enumerate(homes) if home == partition[1]]
            for start in range(0, len(mine), 20_000):
                states = {f"acc-{n}": StoredState(1, 0, 0, state) for n in mine[start : start + 20_000]}
                store.apply(WriteBatch(store.token(), store.positions(), store.positions(), states))


def _greatest(here: Arena, given: argparse.Namespace) -> int:
    """The most RssAnon of any Python worker while one task owns all partitions and decides the backlog."""
    arguments = command("run", "bank_account", "--once", "--master", "local[1]")
    with subprocess.Popen(arguments, cwd=here.root) as run:
        return greatest_memory(run)


if __name__ == "__main__":
    main()
