"""Verification: how fast `cqrs verify` checks a clean history, and the largest anonymous memory of a worker."""

import argparse
import json
import subprocess
import tempfile

from benchmarks.environment import Arena, arena, command, deposit, greatest_memory, open_accounts
from benchmarks.report import report


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--commands", type=int, default=1_000_000)
    options.add_argument("--accounts", type=int, default=20_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--runs", type=int, default=3)
    arguments = options.parse_args()
    with arena() as environment:
        topics = environment.topics("bank_account", arguments.partitions)
        open_accounts(environment, topics, arguments.accounts)
        deposit(environment, topics, arguments.commands - arguments.accounts, arguments.accounts)
        environment.cqrs("run", "bank_account", "--once")
        rows = [
            _measured(environment, arguments.commands, *flags)
            for _ in range(arguments.runs)
            for flags in ((), ("--state",))
        ]
    report("verify", rows)


def _measured(environment: Arena, commands: int, *flags: str) -> dict[str, object]:
    """Run one verification, which must find no violation."""
    arguments = command("verify", "bank_account", *flags, "-o", "json")
    with tempfile.TemporaryFile() as printed:  # a pipe without a reader would fill and block the command
        with subprocess.Popen(arguments, cwd=environment.root, stdout=printed) as proving:
            memory = greatest_memory(proving)
        printed.seek(0)
        summary = json.load(printed)
    assert proving.returncode == 0 and (summary["commands"], summary["violation_count"]) == (commands, 0), (
        summary
    )
    what = " ".join(("verify", *flags))
    return {"what": what, "commands_per_s": commands / summary["seconds"], "worker_mb": memory / 1e6}


if __name__ == "__main__":
    main()
