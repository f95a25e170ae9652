"""The environment of the benchmarks: a temporary project with the embedded broker, filled topics, processor times."""

import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.client.uuid7 import uuid7
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.embedded import broker as embedded
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics

AGGREGATES = Path(__file__).parent.parent / "aggregates"


@dataclass(frozen=True)
class Environment:
    """A project folder and its broker."""

    root: Path
    connection: Connection
    broker_pid: int

    def topics(self, name: str, partitions: int, prefix: str = "", personal: bool = False) -> Topics:
        """Return the aggregate's topics; create them if they are missing."""
        topics = Topics(name, prefix)
        with Admin(self.connection) as admin:
            ensure_topics(admin, topics, TopicPlan(partitions=partitions, personal=personal))
        return topics

    def cqrs(self, *arguments: str) -> dict[str, Any]:
        """Run a `cqrs` command in the project; return its JSON document."""
        process = subprocess.run(
            [*command(*arguments), "-o", "json"], cwd=self.root, stdout=subprocess.PIPE, check=True
        )
        return dict(json.loads(process.stdout))

    def broker_cpu(self) -> float:
        """Return the CPU seconds of the broker so far."""
        return cpu_seconds(self.broker_pid)


@contextmanager
def new_environment() -> Iterator[Environment]:
    """Yield a new project and broker, and remove them afterwards, also if SIGTERM ends the benchmark."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    root = Path(tempfile.mkdtemp(prefix="cqrs-benchmark-"))
    os.environ["SPARK_LOCAL_DIRS"] = str(root / "spark")  # for files that a killed JVM leaves
    try:
        (root / "cqrs.toml").touch()
        shutil.copytree(AGGREGATES, root / "aggregates")
        # Programs in other languages get its address alone. Without TLS a login costs nothing after the connect.
        broker = embedded.start_broker(root, lambda text: print(text, file=sys.stderr), require_login=False)
        yield Environment(root, Connection(broker.bootstrap_server), broker.pid)
    finally:
        embedded.stop_broker(root)
        shutil.rmtree(root, ignore_errors=True)


def command(*arguments: str) -> list[str]:
    """Return the command line of `cqrs` with these arguments, for this Python."""
    return [sys.executable, "-m", "cqrs_cli", *arguments]


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process, from /proc (fields 14 and 15, in clock ticks)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def loopback_bytes() -> int:
    """Return the bytes that all processes of this machine have sent to each other over its loopback interface."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.split()[0] == "lo:")


def tree_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and of all its living descendants; 0 if it is gone."""
    try:
        seconds = cpu_seconds(pid)
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return 0.0
    return seconds + sum(tree_cpu_seconds(int(child)) for text in lists for child in text.split())


def peak_worker_memory(process: "subprocess.Popen[bytes]") -> int:
    """Return the largest RssAnon of any Python worker below a process, until the process ends."""
    peak = 0
    while process.poll() is None:
        for pid in workers(process.pid):
            peak = max(peak, anonymous_memory(pid))
        time.sleep(0.1)
    return peak


def workers(pid: int) -> list[int]:
    """Return the Python workers below a process: Spark's daemon and its forks."""
    pids = []
    with suppress(OSError):  # a process has just ended
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, task.read_text().split()):
                name = Path(f"/proc/{child}/comm").read_text().strip()
                pids += ([child] if name.startswith("python") else []) + workers(child)
    return pids


def anonymous_memory(pid: int) -> int:
    """Return a process's anonymous memory in bytes (RssAnon); 0 if the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next(
        (1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")), 0
    )


def new_id(kind: str) -> str:
    """Return a command id: `uuid7`, which ascends with time, or `random`."""
    return uuid7() if kind == "uuid7" else str(uuid.uuid4())


def command_bytes(
    kind: str, subject: str, data: str, command_id: str, name: str = "bank_account", sampled: bool = False
) -> bytes:
    """Return a serialized command; with a trace if it is sampled."""
    trace = f'"traceparent":"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01",' if sampled else ""
    return (
        f'{{"specversion":"1.0","id":"{command_id}","source":"/benchmark","type":"{name}.{kind}",'
        f'"subject":"{subject}",{trace}"data":{data}}}'
    ).encode()


def open_accounts(environment: Environment, topics: Topics, accounts: int) -> None:
    """Send one `Open` for each account."""
    with CommandProducer(environment.connection, "murmur2", bulk=True, reports=False) as sender:
        for number in range(accounts):
            subject = f"acc-{number}"
            sender.send(
                topics.commands,
                subject.encode(),
                command_bytes("Open", subject, '{"owner":"ann"}', new_id("uuid7"), topics.aggregate),
            )
        sender.flush()


def send_deposits(
    environment: Environment,
    topics: Topics,
    commands: int,
    accounts: int,
    ids: str = "uuid7",
    data: str = '{"amount":5}',
    sampled: float = 0.0,
) -> None:
    """Send this number of deposits to random accounts; `sampled`: the share of commands with a sampled trace."""
    generator = random.Random(1)
    with CommandProducer(environment.connection, "murmur2", bulk=True, reports=False) as sender:
        for _ in range(commands):
            subject = f"acc-{generator.randrange(accounts)}"
            is_sampled = sampled > 0 and generator.random() < sampled
            command = command_bytes("Deposit", subject, data, new_id(ids), topics.aggregate, is_sampled)
            sender.send(topics.commands, subject.encode(), command)
        sender.flush()
