"""Verification: how fast `cqrs verify` checks a clean history, and the largest anonymous memory of a worker."""

import argparse
import json
import subprocess
import tempfile

from benchmarks.environment import (
    Environment,
    command,
    new_environment,
    open_accounts,
    peak_worker_memory,
    send_deposits,
)
from benchmarks.report import report


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--commands", type=int, default=1_000_000)
    options.add_argument("--accounts", type=int, default=20_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--without-state", action="store_true", help="do not measure cqrs verify --state")
    arguments = options.parse_args()
    with new_environment() as environment:
        topics = environment.topics("bank_account", arguments.partitions)
        open_accounts(environment, topics, arguments.accounts)
        send_deposits(environment, topics, arguments.commands - arguments.accounts, arguments.accounts)
        environment.cqrs("run", "bank_account", "--once")
        rows = [
            _measure(environment, arguments.commands, *flags)
            for _ in range(arguments.runs)
            for flags in ((), ("--state",))[: 1 if arguments.without_state else 2]
        ]
    report("verify", rows)


def _measure(environment: Environment, commands: int, *flags: str) -> dict[str, object]:
    """Run one verification, which must find no violation."""
    arguments = command("verify", "bank_account", *flags, "-o", "json")
    with tempfile.TemporaryFile() as output_file:  # a pipe without a reader would fill and block the command
        with subprocess.Popen(arguments, cwd=environment.root, stdout=output_file) as process:
            memory = peak_worker_memory(process)
        output_file.seek(0)
        summary = json.load(output_file)
    assert process.returncode == 0 and (summary["commands"], summary["violation_count"]) == (commands, 0), (
        summary
    )
    label = " ".join(("verify", *flags))
    return {"what": label, "commands_per_s": commands / summary["seconds"], "worker_mb": memory / 1e6}


if __name__ == "__main__":
    main()
