"""Process rate: how fast `cqrs process` turns events into commands, one for each."""

import argparse

from benchmarks.arena import arena
from benchmarks.project import write_deposits
from benchmarks.report import report

_PROCESS = """
from collections.abc import Iterator
import cqrs_cli as cqrs
from aggregates.bank_account import Deposited
from aggregates.counter import Increment

def react(event: Deposited, at: cqrs.Recorded) -> Iterator[cqrs.Send]:
    yield cqrs.Send("counter", at.aggregate_id, Increment(event.amount))

process = cqrs.Process(react)
"""


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=400_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--runs", type=int, default=3)
    given = options.parse_args()
    rows = []
    with arena() as here:
        (here.root / "processes").mkdir()
        write_deposits(here, here.topics("bank_account", given.partitions), given.events, given.partitions)
        here.topics("counter", given.partitions)
        for run in range(given.runs):
            name = f"counting_{run}"
            (here.root / f"processes/{name}.py").write_text(_PROCESS)
            here.cqrs("init")
            before = here.broker_cpu()
            done = here.cqrs("process", name, "--once", "--from", "beginning")
            assert done["commands"] == given.events, done
            each = 1e6 / given.events
            rows.append(
                {
                    "what": "process",
                    "events_per_s": done["events"] / done["seconds"],
                    "cpu_us_per_event": done["cpu_seconds"] * each,
                    "broker_cpu_us_per_event": (here.broker_cpu() - before) * each,
                }
            )
    report("process", rows)


if __name__ == "__main__":
    main()
