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
    with arena() as here:
        here.topics("bank_account", 4)
        calls = {
            "cqrs --help": ("--help",),
            "cqrs send": (
                "send",
                "bank_account",
                "acc-1",
                "Deposit",
                "amount:=5",
                "-b",
                here.connection.bootstrap_server,
            ),
            "cqrs show": ("show", "bank_account", "acc-1", "-b", here.connection.bootstrap_server),
        }
        for what, arguments in calls.items():
            _seconds(here, *arguments)  # warm-up: compiled modules, page cache
            rows += [{"what": what, "seconds": _seconds(here, *arguments)} for _ in range(given.runs)]
    report("start-up", rows)


def _seconds(here: Arena, *arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run(
        command(*arguments), cwd=here.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
