"""The same work by Kafka Streams, to run in turn with ours. Its program is not in this repository.

`DIR/kstreams/run.sh` (`--peer DIR`) decides the same commands, and prints `commands_per_s=` and `cpu_s=` when it has
decided `--until` of them. Without `--dedup on` it recognises no repeated id: the fastest that a Kafka user gets today,
but less work than ours.
"""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.arena import Arena
from cqrs_cli.kafka.topics.topics import Topics

#: With and without recognising repeated ids.
DEDUP = ("off", "on")

#: Its settings for a backlog: the best that were found for it.
_BULK = ("--commit-ms", "1000")

#: And for low latency.
_QUICK = ("producer.linger.ms=0", "producer.retry.backoff.ms=2", "producer.retry.backoff.max.ms=10")


def name_of(dedup: str) -> str:
    """Its name in the tables."""
    return "Kafka Streams with dedup" if dedup == "on" else "Kafka Streams"


def backlog(here: Arena, folder: Path, topics: Topics, total: int, dedup: str) -> dict[str, float]:
    """Decide `total` commands that lie there: commands/s and its CPU seconds."""
    return _figures([*_call(here, folder, topics, dedup), "--until", str(total), *_BULK, "--cache", "on"])


def restore(here: Arena, folder: Path, topics: Topics, total: int) -> dict[str, float]:
    """Decide `total` commands that lie there, lose the store, and restore it from its changelog: records/s.

    Without its cache, so that the changelog has a record for each command, as the events topic has.
    """
    call = _call(here, folder, topics, "off")
    _figures([*call, "--until", str(total), *_BULK, "--cache", "off"])
    return _figures([*call, "--restore-bench"])


def _figures(call: list[str]) -> dict[str, float]:
    said = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {name: float(figure) for name, figure in re.findall(r"(\w+)=([\d.]+)", said)}


@contextmanager
def serving(here: Arena, folder: Path, topics: Topics, commit_ms: int, dedup: str) -> Iterator[None]:
    """It decides what comes, at its quickest, until the block ends."""
    arguments = [*_call(here, folder, topics, dedup), "--until", "1000000000", "--commit-ms", str(commit_ms)]
    arguments += [word for setting in _QUICK for word in ("--set", setting)]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL) as peer:
        try:
            yield
        finally:
            peer.terminate()


def _call(here: Arena, folder: Path, topics: Topics, dedup: str) -> list[str]:
    return [
        str(folder / "kstreams" / "run.sh"),
        topics.commands.removesuffix(".commands"),
        *("--bootstrap", here.connection.bootstrap_server),
        *("--app", f"peer{time.time_ns()}"),
        *("--threads", "2"),
        *("--dedup", dedup),
    ]
