"""Replay rate: how fast `cqrs replay` folds all aggregates from the events topic.

With `--peer`, Kafka Streams also restores its store, from a changelog with the state after each command.
"""

import argparse
from pathlib import Path

from benchmarks import peer
from benchmarks.environment import arena, deposit, open_accounts
from benchmarks.report import report


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=1_000_000)
    options.add_argument("--accounts", type=int, default=20_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--peer", type=Path, help="a folder with Kafka Streams doing the same work")
    given = options.parse_args()
    with arena() as here:
        topics = here.topics("bank_account", given.partitions)
        open_accounts(here, topics, given.accounts)
        deposit(here, topics, given.events - given.accounts, given.accounts)
        here.cqrs("run", "bank_account", "--once")
        rows = []
        for _ in range(given.runs):
            done = here.cqrs("replay", "bank_account")
            assert done["events"] == given.events, done
            rows.append({"what": "replay", "events_per_s": done["events"] / done["seconds"]})
        if given.peer is not None:
            restored = peer.restore(here, given.peer, topics, given.events)
            assert restored["records"] == given.events - given.accounts, restored  # it needs no Open
            rows.append(
                {"what": "Kafka Streams restores its store", "events_per_s": restored["records_per_s"]}
            )
    report("replay", rows)


if __name__ == "__main__":
    main()
