"""Start-up of the command line: `--help`, and one `send` to an idle broker, as whole processes."""

import argparse
import subprocess
import time

from benchmarks.environment import Arena, arena, command
from benchmarks.report import report


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=9)
    given = options.parse_args()
    rows = []
    with arena() as environment:
        environment.topics("bank_account", 4)
        calls = {
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
        for what, arguments in calls.items():
            _seconds(environment, *arguments)  # warm-up: compiled modules, page cache
            rows += [{"what": what, "seconds": _seconds(environment, *arguments)} for _ in range(given.runs)]
    report("start-up", rows)


def _seconds(environment: Arena, *arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run(
        command(*arguments),
        cwd=environment.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
