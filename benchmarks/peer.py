"""The same work by Kafka Streams, in turn with cqrs. Its program is not in this repository.

`DIR/kstreams/run.sh` (`--peer DIR`) decides the same commands, and prints `commands_per_s=` and `cpu_s=` when it has
decided `--until` of them. Without `--dedup on` it detects no repeated id: the fastest setup for a Kafka user today, but
less work than cqrs does.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks.environment import Environment
from cqrs_cli.kafka.connection.librdkafka_log import LIBRDKAFKA_LOG
from cqrs_cli.kafka.topics.topics import Topics

#: Without and with dedup of ids.
DEDUP = ("off", "on")

#: The best known settings for a backlog: the commit interval in ms.
_BACKLOG_COMMIT_MS = 1000

#: The best known settings for low latency: the commit interval in ms, and other settings.
LOW_LATENCY_COMMIT_MS = 5
_LOW_LATENCY_SETTINGS = (
    "producer.linger.ms=0",
    "producer.retry.backoff.ms=2",
    "producer.retry.backoff.max.ms=10",
)


def name_of(dedup: str) -> str:
    """Return the name of Kafka Streams in the tables, which depends on the dedup of ids."""
    return "Kafka Streams with dedup" if dedup == "on" else "Kafka Streams"


def backlog(
    environment: Environment, folder: Path, topics: Topics, total: int, dedup: str
) -> dict[str, float]:
    """Decide a backlog of `total` commands; return commands/s and CPU seconds."""
    return _figures(
        [*_peer_command(environment, folder, topics, dedup), *_backlog_options(total), "--cache", "on"]
    )


def restore(environment: Environment, folder: Path, topics: Topics, total: int) -> dict[str, float]:
    """Decide a backlog of `total` commands, delete the store, and restore it from its changelog; return records/s.

    The cache is off, so that the changelog has a record for each command, like the events topic.
    """
    peer_command = _peer_command(environment, folder, topics, "off")
    _figures([*peer_command, *_backlog_options(total), "--cache", "off"])
    return _figures([*peer_command, "--restore-bench"])


def _backlog_options(total: int) -> tuple[str, ...]:
    return ("--until", str(total), "--commit-ms", str(_BACKLOG_COMMIT_MS))


def _figures(peer_command: list[str]) -> dict[str, float]:
    output = subprocess.check_output(peer_command, env=_environment(), text=True)
    return {name: float(figure) for name, figure in re.findall(r"(\w+)=([\d.]+)", output)}


def _environment() -> dict[str, str]:
    return os.environ | {"KS_LOG": "error"}


@contextmanager
def running_peer(
    environment: Environment, folder: Path, topics: Topics, commit_ms: int, dedup: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the program with the settings for low latency until the block ends; yield its process."""
    arguments = [
        *_peer_command(environment, folder, topics, dedup),
        "--until",
        "1000000000",
        "--commit-ms",
        str(commit_ms),
        *_set_options(_LOW_LATENCY_SETTINGS),
    ]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=_environment()) as peer:
        try:
            yield peer
        finally:
            peer.terminate()


@contextmanager
def instance_pair(
    environment: Environment, folder: Path, topics: Topics, session_timeout: float
) -> "Iterator[list[subprocess.Popen[bytes]]]":
    """Yield two instances of one application, each with a replica of the other's state, once both own partitions.

    They detect repeated ids. The death of an instance is noticed after `session_timeout` seconds. They use the classic
    protocol, because the streams protocol has a session timeout of at least 45 s, which only a broker can change.
    """
    application = f"peer{time.time_ns()}"
    settings = (
        *_LOW_LATENCY_SETTINGS,
        "num.standby.replicas=1",
        f"main.consumer.session.timeout.ms={session_timeout * 1000:.0f}",
        f"main.consumer.heartbeat.interval.ms={session_timeout * 1000 / 3:.0f}",
    )
    instances: list[subprocess.Popen[bytes]] = []
    subprocess.run([str(folder / "kstreams" / "run.sh")], stderr=subprocess.DEVNULL)  # builds it
    try:
        for number in range(2):
            state_folder = environment.root / f"{application}-{number}"
            state_folder.mkdir()
            peer_command = _peer_command(
                environment, folder, topics, "on", application, threads=1, protocol="classic"
            )
            peer_command += ["--until", "1000000000", "--commit-ms", "20", "--state-dir", str(state_folder)]
            peer_command += _set_options(settings)
            # RocksDB unpacks its library, and a killed process does not delete the file.
            variables = _environment() | {"ROCKSDB_SHAREDLIB_DIR": str(state_folder)}
            instances.append(subprocess.Popen(peer_command, stdout=subprocess.DEVNULL, env=variables))
        _wait_for_instances(environment, application, instances)
        yield instances
    finally:
        for run in instances:
            run.kill()
            run.wait()


def _wait_for_instances(
    environment: Environment, application: str, instances: "list[subprocess.Popen[bytes]]"
) -> None:
    """Wait until two members of the group have partitions; raise `TimeoutError` after two minutes."""
    admin = AdminClient(environment.connection.librdkafka(), logger=LIBRDKAFKA_LOG)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert all(run.poll() is None for run in instances), "an instance of Kafka Streams has ended"
        with suppress(KafkaException):  # there is no group before the first member
            group = admin.describe_consumer_groups([application])[application].result()
            if sum(bool(member.assignment.topic_partitions) for member in group.members) == 2:
                return
        time.sleep(0.2)
    raise TimeoutError("two instances of Kafka Streams have no partitions after two minutes")


def _peer_command(
    environment: Environment,
    folder: Path,
    topics: Topics,
    dedup: str,
    application: str = "",
    threads: int = 2,
    protocol: str = "streams",
) -> list[str]:
    """Return the command line. The streams protocol (KIP-1071) and transactional stores (KIP-892) are faster."""
    return [
        str(folder / "kstreams" / "run.sh"),
        topics.commands.removesuffix(".commands"),
        *("--bootstrap", environment.connection.bootstrap_server),
        *("--app", application or f"peer{time.time_ns()}"),
        *("--threads", str(threads)),
        *("--dedup", dedup),
        *_set_options((f"group.protocol={protocol}", "enable.transactional.statestores=true")),
    ]


def _set_options(settings: Sequence[str]) -> list[str]:
    return [option for setting in settings for option in ("--set", setting)]


def version(folder: Path) -> str:
    """Return the version of Kafka Streams that the program uses, from its `pom.xml`."""
    found = re.search(
        r"<artifactId>kafka-streams</artifactId><version>([^<]+)<",
        (folder / "kstreams" / "pom.xml").read_text(),
    )
    return found[1] if found else "unknown"
