"""Measure the duration of `cqrs --help`, `cqrs send` and `cqrs show`, with an idle broker."""

import argparse
import subprocess
import time

from benchmarks.environment import Environment, command, new_environment, open_accounts
from benchmarks.report import report


def main() -> None:
    """Read the options, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    rows = []
    with new_environment() as environment:
        open_accounts(environment, environment.topics("bank_account", 4), 2)
        environment.cqrs("run", "bank_account", "--once")  # `cqrs show` fails without events
        commands = {
            "cqrs --help": ("--help",),
            "cqrs send": (
                "send",
                "bank_account",
                "acc-1",
                "Deposit",
                "amount:=5",
                "-b",
                environment.connection.bootstrap_server,
            ),
            "cqrs show": ("show", "bank_account", "acc-1", "-b", environment.connection.bootstrap_server),
        }
        for label, arguments in commands.items():
            _seconds(environment, *arguments)  # warm-up: compiled modules, page cache
            rows += [
                {"what": label, "seconds": _seconds(environment, *arguments)} for _ in range(options.runs)
            ]
    report("start-up", rows)


def _seconds(environment: Environment, *arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run(
        command(*arguments),
        cwd=environment.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
