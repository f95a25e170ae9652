"""The place of the benchmarks: a project of their own with the embedded broker, filled topics, and processor times."""

import json
import os
import random
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
class Arena:
    """A project folder and the broker that belongs to it."""

    root: Path
    connection: Connection
    broker_pid: int

    def topics(self, name: str, partitions: int, prefix: str = "", personal: bool = False) -> Topics:
        """The aggregate's topics, made if they are missing."""
        topics = Topics(name, prefix)
        with Admin(self.connection) as admin:
            ensure_topics(admin, topics, TopicPlan(partitions=partitions, personal=personal))
        return topics

    def cqrs(self, *arguments: str) -> dict[str, Any]:
        """Run the command here; its JSON document."""
        done = subprocess.run(
            [*command(*arguments), "-o", "json"], cwd=self.root, stdout=subprocess.PIPE, check=True
        )
        return dict(json.loads(done.stdout))

    def broker_cpu(self) -> float:
        """CPU seconds the broker has used so far."""
        return cpu_seconds(self.broker_pid)


@contextmanager
def arena() -> Iterator[Arena]:
    """A fresh project and broker, gone afterwards, also when SIGTERM ends the benchmark."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    root = Path(tempfile.mkdtemp(prefix="cqrs-benchmark-"))
    os.environ["SPARK_LOCAL_DIRS"] = str(root / "spark")  # what a JVM that is killed leaves behind
    try:
        (root / "cqrs.toml").touch()
        shutil.copytree(AGGREGATES, root / "aggregates")
        broker = embedded.start_broker(root, lambda text: print(text, file=sys.stderr))
        yield Arena(root, Connection(broker.bootstrap_server), broker.pid)
    finally:
        embedded.stop_broker(root)
        shutil.rmtree(root, ignore_errors=True)


def command(*arguments: str) -> list[str]:
    """`cqrs` with these arguments, as this Python has it."""
    return [sys.executable, "-m", "cqrs_cli", *arguments]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, from /proc (fields 14 and 15, in clock ticks)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def greatest_memory(process: "subprocess.Popen[bytes]") -> int:
    """The most RssAnon of any Python worker below a process, until that ends."""
    greatest = 0
    while process.poll() is None:
        for pid in workers(process.pid):
            greatest = max(greatest, anonymous(pid))
        time.sleep(0.1)
    return greatest


def workers(pid: int) -> list[int]:
    """The Python workers below a process: Spark's daemon and what it forked."""
    found = []
    with suppress(OSError):  # one of them has just ended
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, task.read_text().split()):
                name = Path(f"/proc/{child}/comm").read_text().strip()
                found += ([child] if name.startswith("python") else []) + workers(child)
    return found


def anonymous(pid: int) -> int:
    """Bytes of a process's own memory, RssAnon; 0 if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next(
        (1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")), 0
    )


def new_id(kind: str) -> str:
    """A command id: `uuid7`, in order of time, or `random`."""
    return uuid7() if kind == "uuid7" else str(uuid.uuid4())


def message(kind: str, subject: str, data: str, command_id: str, name: str = "bank_account") -> bytes:
    """A command on the wire."""
    return (
        f'{{"specversion":"1.0","id":"{command_id}","source":"/benchmark","type":"{name}.{kind}",'
        f'"subject":"{subject}","data":{data}}}'
    ).encode()


def open_accounts(arena: Arena, topics: Topics, accounts: int) -> None:
    """One `Open` for each account."""
    with CommandProducer(arena.connection, "murmur2", bulk=True, reports=False) as sender:
        for number in range(accounts):
            subject = f"acc-{number}"
            sender.send(
                topics.commands,
                subject.encode(),
                message("Open", subject, '{"owner":"ann"}', new_id("uuid7"), topics.aggregate),
            )
        sender.flush()


def deposit(
    arena: Arena,
    topics: Topics,
    commands: int,
    accounts: int,
    ids: str = "uuid7",
    data: str = '{"amount":5}',
) -> None:
    """So many deposits into accounts drawn at random."""
    draw = random.Random(1)
    with CommandProducer(arena.connection, "murmur2", bulk=True, reports=False) as sender:
        for _ in range(commands):
            subject = f"acc-{draw.randrange(accounts)}"
            one = message("Deposit", subject, data, new_id(ids), topics.aggregate)
            sender.send(topics.commands, subject.encode(), one)
        sender.flush()
