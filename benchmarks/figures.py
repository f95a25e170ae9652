"""Run the benchmarks of docs/figures.md: `python -m benchmarks.figures --peer DIR`.

`benchmarks/results/VERSION.json` gets the commit, the machine, the versions and all runs. A part with a result for this
commit and these counts is not run again, so an interrupted command continues.
"""

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka

from benchmarks import peer
from cqrs_cli.kafka.embedded.release import EMBEDDED
from cqrs_cli.system import java
from cqrs_cli.version import __version__

ROOT = Path(__file__).resolve().parent.parent

#: The measured code; a commit that changes only other files needs no new figures.
_MEASURED = ("cqrs_cli", "aggregates", "benchmarks/*.py", "constraints.txt")

#: The end of `commit` if measured files have changes without a commit.
_CHANGED = " with changes"

#: The packages in whose C and JVM code most time is spent.
_PACKAGES = ("confluent-kafka", "msgspec", "lmdb", "pyspark")


class Counts(NamedTuple):
    """The size of the measurements. They take about 30 minutes on two cores with the peer, and 20 without."""

    commands: int = 1_000_000
    accounts: int = 20_000
    runs: int = 3
    rates: Sequence[int] = (200, 1000)
    partitions: Sequence[int] = (4, 12, 32)
    seconds: float = 6.0
    warm_up: float = 25.0


#: Only shows that the benchmarks work.
QUICK = Counts(2000, 100, 1, (200,), (4,), 1.0, 1.0)


class Part(NamedTuple):
    """A benchmark: `Part("replay", ("-m", "benchmarks.replay", "--events", "1000000"), has_peer=True)`."""

    name: str
    arguments: tuple[str, ...]  # of Python
    has_peer: bool = False  # the benchmark can also measure Kafka Streams

    def command(self, peer_folder: str) -> list[str]:
        """Return the arguments of Python, with the folder of the peer if there is one."""
        return [*self.arguments, *(["--peer", peer_folder] if self.has_peer and peer_folder else [])]


def parts(counts: Counts, with_peer: bool) -> list[Part]:
    """Return the benchmarks, the most important first."""
    runs = ("--runs", str(counts.runs))
    size = ("--accounts", str(counts.accounts), *runs)
    rates = tuple(option for rate in counts.rates for option in ("--rate", str(rate)))
    seconds, warm_up = ("--seconds", f"{counts.seconds:g}"), ("--warm-up", f"{counts.warm_up:g}")
    takeover = ("-m", "benchmarks.gaps", "--seconds", "12", *warm_up, *runs)
    selected = [
        Part("backlog", ("-m", "benchmarks.backlog", "--commands", str(counts.commands), *size), True)
    ]
    for partitions in map(str, counts.partitions):
        latency = (
            "-m",
            "benchmarks.latency",
            "--partitions",
            partitions,
            *rates,
            *seconds,
            *warm_up,
            *runs,
            "--dedup",
            "off",
        )
        selected.append(Part(f"latency-{partitions}", latency, True))
    selected += [
        Part("replay", ("-m", "benchmarks.replay", "--events", str(counts.commands), *size), True),
        Part(
            "verify",
            ("-m", "benchmarks.verify", "--commands", str(counts.commands), *size, "--without-state"),
        ),
        Part("takeover", (*takeover, *_cases("newer run", "worker", "standby"))),
        Part(
            "process",
            ("-m", "benchmarks.process", "--events", str(counts.commands * 2 // 5), *seconds, *runs),
        ),
        Part("startup", ("-m", "benchmarks.startup", *runs)),
    ]
    if with_peer:
        selected.append(Part("takeover-peer", (*takeover, *_cases("peer, 6 s")), True))
    return selected


def _cases(*names: str) -> tuple[str, ...]:
    return tuple(option for name in names for option in ("--case", name))


def main() -> None:
    """Read the options, run the missing parts. Exit code 1: a part failed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--peer", type=Path, help="folder of the Kafka Streams peer (kstreams/run.sh in it)")
    options.add_argument("--results", type=Path, default=ROOT / f"benchmarks/results/{__version__}.json")
    options.add_argument("--quick", action="store_true", help="tiny counts, which only test the benchmarks")
    options.add_argument("--commands", type=int, help="of backlog, replay and verify")
    options.add_argument("--runs", type=int, help="of each measurement; figures are medians")
    options.add_argument("--seconds", type=float, help="of each run of the latency")
    options.add_argument("--part", action="append", help="only this part; may be repeated")
    arguments = options.parse_args()
    changes = {name: value for name in ("commands", "runs", "seconds") if (value := vars(arguments)[name])}
    counts = (QUICK if arguments.quick else Counts())._replace(**changes)
    commit = measured_commit()
    if commit.endswith(_CHANGED) and not arguments.quick:
        options.error(f"commit the changes of {', '.join(_MEASURED)} first: figures belong to a commit")
    selected = parts(counts, with_peer=arguments.peer is not None)
    if arguments.part:
        selected = [part for part in selected if part.name in arguments.part]
    facts = {"version": __version__, "commit": commit, **describe_machine(arguments.peer)}
    sys.exit(0 if run_parts(selected, arguments.results, facts, arguments.peer) else 1)


def run_parts(
    selected: Sequence[Part], results_file: Path, facts: Mapping[str, Any], peer_folder: Path | None = None
) -> bool:
    """Run the parts that have no result for these `facts`; return True if each part has a result then.

    Results of other facts (another commit, machine or version) are deleted.
    """
    results = _previous_results(results_file, facts)
    for number, part in enumerate(selected, 1):
        command = shlex.join(["python", *part.command("DIR" if peer_folder else "")])
        _print(f"[{number}/{len(selected)}] {part.name}: {command}")
        if results["parts"].get(part.name, {}).get("command") == command:
            _print(f"{part.name} has a result")
            continue
        results["parts"].pop(part.name, None)
        result = _run(part.command(str(peer_folder.resolve()) if peer_folder else ""))
        if result is None:
            _print(f"{part.name} failed; the next call runs it again")
            continue
        results["parts"][part.name] = {"command": command, **result}
        results["date"] = f"{datetime.now(UTC):%Y-%m-%d}"
        results_file.parent.mkdir(parents=True, exist_ok=True)
        results_file.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    return all(part.name in results["parts"] for part in selected)


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _previous_results(results_file: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the file if it has the same facts, else results without parts."""
    if results_file.exists():
        results: dict[str, Any] = json.loads(results_file.read_text())
        if facts.items() <= results.items():
            return results
    return {**facts, "date": "", "parts": {}}


def _run(command: Sequence[str]) -> dict[str, Any] | None:
    """Return the documents, the duration and the load average before it; None if the command failed."""
    start, load = time.monotonic(), os.getloadavg()[0]
    process = subprocess.run([sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if process.returncode:
        return None
    documents = [json.loads(line) for line in process.stdout.splitlines()]
    return {"seconds": round(time.monotonic() - start), "load": round(load, 2), "documents": documents}


def measured_commit() -> str:
    """Return the last commit that changed measured code, with the mark of uncommitted changes if there are any."""
    commit = _git("log", "-1", "--format=%H", "--", *_MEASURED)
    return commit + (_CHANGED if _git("status", "--porcelain", "--", *_MEASURED) else "")


def _git(*arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True).strip()


def describe_machine(peer_folder: Path | None) -> dict[str, Any]:
    """Return the machine, and the versions of the programs that take part."""
    processor = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    versions = {
        "python": platform.python_version(),
        "java": str(java.version(java.find_java())),
        "kafka": EMBEDDED.version,
        "librdkafka": confluent_kafka.libversion()[0],
        **{name: installed_version(name) for name in _PACKAGES},
    }
    if peer_folder:
        versions["kafka-streams"] = peer.version(peer_folder)
    return {
        "machine": {
            "processor": processor[1] if processor else platform.machine(),
            "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "system": f"{platform.system()} {platform.release()}",
        },
        "versions": versions,
    }


if __name__ == "__main__":
    main()
