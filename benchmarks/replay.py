"""Replay rate: how fast `cqrs replay` folds all aggregates from the events topic.

With `--whatif`, `cqrs whatif` also decides all commands again. With `--peer`, Kafka Streams also restores its store,
from a changelog with the state after each command.
"""

import argparse
from pathlib import Path

from benchmarks import peer
from benchmarks.environment import new_environment, open_accounts, send_deposits
from benchmarks.report import report


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=1_000_000)
    options.add_argument("--accounts", type=int, default=20_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--whatif", action="store_true", help="measure cqrs whatif, too")
    options.add_argument("--peer", type=Path, help="a folder with Kafka Streams doing the same work")
    arguments = options.parse_args()
    with new_environment() as environment:
        topics = environment.topics("bank_account", arguments.partitions)
        open_accounts(environment, topics, arguments.accounts)
        send_deposits(environment, topics, arguments.events - arguments.accounts, arguments.accounts)
        environment.cqrs("run", "bank_account", "--once")
        rows = []
        for _ in range(arguments.runs):
            summary = environment.cqrs("replay", "bank_account")
            assert summary["events"] == arguments.events, summary
            rows.append({"what": "replay", "events_per_s": summary["events"] / summary["seconds"]})
            if arguments.whatif:
                summary = environment.cqrs("whatif", "bank_account", "--with", "aggregates.bank_account")
                assert (summary["commands"], summary["differences"]) == (arguments.events, []), summary
                rows.append({"what": "whatif", "commands_per_s": summary["commands"] / summary["seconds"]})
        if arguments.peer is not None:
            restored = peer.restore(environment, arguments.peer, topics, arguments.events)
            assert restored["records"] == arguments.events - arguments.accounts, restored  # it needs no Open
            rows.append(
                {"what": "Kafka Streams restores its store", "events_per_s": restored["records_per_s"]}
            )
    report("replay", rows)


if __name__ == "__main__":
    main()
