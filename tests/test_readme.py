"""The README is true in every line that can be run."""

import json
import os
import random
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cqrs_cli import registry
from cqrs_cli.cli import main
from cqrs_cli.cli.context import Call
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.embedded import jars
from cqrs_cli.kafka.embedded.release import EMBEDDED
from cqrs_cli.kafka.topics.partitioner import partition_for
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from cqrs_cli.scaffold import create
from cqrs_cli.system import java
from tests.support import ROOT
from tests.support.commands import mixture
from tests.support.deciding import Owner
from tests.support.readme import TEXT, blocks, commands, rows
from tests.support.releases import OLDEST
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from cqrs_cli.kafka.connection.connection import Connection

AGGREGATE, TEST, CLIENT, CONSUMER, PRODUCER = blocks("python")
MAKE, NEW, TOUR, EXAMPLES = map(commands, blocks("console"))
(JAVA,) = blocks("java")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The project that `cqrs new shop` makes, with the README's aggregate in it."""
    create(tmp_path / "shop")
    (tmp_path / "shop/aggregates/theatre.py").write_text(AGGREGATE)
    return tmp_path / "shop"


def python(program: str, folder: Path, **environment: str) -> None:
    variables = {**os.environ, **environment}
    subprocess.run([sys.executable, "-c", program], cwd=folder, env=variables, check=True)


def cqrs(line: str, folder: Path, **environment: str) -> str:
    name, *arguments = shlex.split(line)
    assert name == "cqrs"
    command = [sys.executable, "-m", "cqrs_cli", *arguments]
    return subprocess.check_output(command, cwd=folder, env={**os.environ, **environment}, text=True)


def test_the_aggregate_has_ten_lines() -> None:
    assert len([line for line in AGGREGATE.splitlines() if line.strip()]) == 10


def test_its_test_passes(shop: Path) -> None:
    python(TEST, shop)


def test_it_keeps_the_laws(shop: Path) -> None:
    python(
        "from cqrs_cli.testing import check_laws; from aggregates import theatre; check_laws(theatre)", shop
    )


def test_make_has_the_two_commands() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {line.removeprefix("make ") for line in MAKE} <= set(targets)


def test_its_kafka_is_the_tested_one() -> None:
    assert f"Kafka ({EMBEDDED.megabytes} MB, kept per user)" in TEXT
    oldest, newest = (release.version.rpartition(".")[0] for release in (OLDEST, EMBEDDED))
    assert f"Apache Kafka {oldest} to {newest} in KRaft mode: all tests run on {EMBEDDED.version}" in TEXT
    assert f"on {OLDEST.version}, too" in TEXT


def test_table_lists_every_command() -> None:
    assert [row.strip("`").split()[1] for row in rows("command")] == list(main.COMMANDS)


def test_every_figure_has_a_benchmark() -> None:
    named = re.findall(r"`python -m benchmarks\.(\w+)", TEXT)
    assert named
    assert [name for name in named if not (ROOT / f"benchmarks/{name}.py").is_file()] == []


def test_make_bench_runs_every_figure(tmp_path: Path) -> None:
    (tmp_path / "python").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "python").chmod(0o755)
    make = ["make", "--old-file=java", "--silent", "bench", f"BIN={tmp_path}", "READY="]
    said = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = re.findall(r"`python (-m benchmarks[^`]*)`", TEXT)
    assert said.splitlines() == named
    assert "-m benchmarks.backlog --remembered 3000000 --ids random" in named


@pytest.mark.parametrize("line", [*TOUR, *EXAMPLES])
def test_every_command_is_understood(line: str) -> None:
    assert isinstance(main.parse(shlex.split(line)[1:]), Call)


def test_project_is_made_as_shown(tmp_path: Path) -> None:
    activate, new, enter = NEW
    assert activate == ". .venv/bin/activate"
    cqrs(new, tmp_path)
    assert (tmp_path / enter.removeprefix("cd ") / "cqrs.toml").is_file()


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_project_tour_can_be_walked(shop: Path, connection: "Connection", prefix: str) -> None:
    environment = {"CQRS_BOOTSTRAP_SERVER": connection.bootstrap_server, "CQRS_TOPIC_PREFIX": prefix}
    for line in TOUR:
        cqrs(line, shop, **environment)
    shown = json.loads(cqrs("cqrs show theatre hamlet -o json", shop, **environment))
    assert (shown["version"], shown["state"]) == (1, {"free": 98})


@pytest.fixture
def bank(connection: "Connection", prefix: str) -> Topics:
    topics = Topics("bank_account", prefix)
    with Admin(connection) as admin:
        ensure_topics(admin, topics, TopicPlan())
    return topics


def decided(connection: "Connection", topics: Topics, account: str) -> str:
    """The outcomes of the commands on the account's partition, by the rules that the owner applies."""
    partition = partition_for("murmur2", account.encode(), 4) or 0
    aggregate: Aggregate = registry.load("bank_account", "aggregates", ROOT)
    opened = Folded(1, aggregate.decider.initial, 0, 0)
    ((_, end),) = readers.bounds(connection, topics.commands, [partition]).values()
    (records,) = readers.read(connection, topics.commands, partition, 0, end)
    context = BatchContext(
        partition,
        lambda _: opened,
        lambda *_: None,
        lambda: 0,
        lambda key: partition_for("murmur2", key, 4) or 0,
    )
    ((value, _, _),) = decide_batch(aggregate, records, context).outcomes
    return read_outcome(value).data.code or read_outcome(value).data.status


@pytest.mark.kafka
def test_the_producer_in_python_is_understood(connection: "Connection", bank: Topics, tmp_path: Path) -> None:
    program = PRODUCER.replace("bank_account.commands", bank.commands)
    python(program, tmp_path, SERVER=connection.bootstrap_server)
    assert decided(connection, bank, "acc-42") == "NOT_OPEN"


@pytest.mark.kafka
def test_the_client_is_answered(connection: "Connection", bank: Topics, prefix: str, tmp_path: Path) -> None:
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "aggregates").symlink_to(ROOT / "aggregates")
    where = {"CQRS_BOOTSTRAP_SERVER": connection.bootstrap_server, "CQRS_TOPIC_PREFIX": prefix}
    owner = Owner(connection, bank, registry.load("bank_account", "aggregates", ROOT))
    with owner.deciding():
        python(CLIENT, tmp_path, **where)
    assert (owner.states["acc-42"].version, owner.states["acc-42"].state.balance) == (2, 100)  # type: ignore[attr-defined]


def test_the_consumer_stays_short() -> None:
    assert len(CONSUMER.splitlines()) <= 45


@pytest.mark.kafka
@pytest.mark.parametrize("seed", [1, 2])
def test_consumers_survive_kills(connection: "Connection", bank: Topics, tmp_path: Path, seed: int) -> None:
    """Killed again and again, and once started twice, it ends with the rows of a fold in one go."""
    choice = random.Random(seed)
    owner = Owner(connection, bank, registry.load("bank_account", "aggregates", ROOT))
    producer = CommandProducer(connection, "murmur2", bulk=True)
    for sent in mixture(3000, seed=seed):
        if sent.key is not None:
            producer.send(bank.commands, sent.key, sent.value or b"")
    producer.flush()
    owner.decide()
    expected = {id: folded.state.balance for id, folded in owner.states.items()}  # type: ignore[attr-defined]
    ends = {p: end for p, (_, end) in readers.bounds(connection, bank.events, range(4)).items()}
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "aggregates").symlink_to(ROOT / "aggregates")
    program = CONSUMER.replace('"bank_account.events"', repr(bank.events)).replace("(1000,", "(20,")
    environment = {**os.environ, "SERVER": connection.bootstrap_server}

    def rows(query: str) -> dict[Any, int]:
        with closing(sqlite3.connect(tmp_path / "balances.db", timeout=30)) as db:
            try:
                return dict(db.execute(query))
            except sqlite3.OperationalError:
                return {}  # no such table yet

    def read() -> int:
        return sum(rows("SELECT partition, next FROM positions").values())

    while read() < sum(ends.values()):
        mark = min(read() + choice.randrange(1, 600), sum(ends.values()))
        several = [
            subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=environment)
            for _ in range(choice.choice([1, 1, 2]))
        ]
        eventually(lambda mark=mark: read() >= mark)  # type: ignore[misc]
        for process in several:
            process.kill()
            process.wait()
    assert rows("SELECT partition, next FROM positions") == ends
    moved = {
        id: balance for id, balance in expected.items() if balance or id in rows("SELECT * FROM balances")
    }
    assert rows("SELECT account, balance FROM balances") == moved


@pytest.mark.kafka
def test_the_producer_in_java_is_understood(connection: "Connection", bank: Topics, tmp_path: Path) -> None:
    (tmp_path / "Deposit.java").write_text(JAVA.replace("bank_account.commands", bank.commands))
    clients = f"{jars.cache_folder()}/*"
    program = java.find_java()
    if "jdk.compiler" not in subprocess.check_output([program, "--list-modules"], text=True):
        pytest.skip(f"{program} is a runtime: it does not compile Java")
    launch = [str(program), "-cp", clients, "Deposit.java", connection.bootstrap_server, "acc-7"]
    subprocess.run(launch, cwd=tmp_path, check=True, capture_output=True)
    assert decided(connection, bank, "acc-7") == "NOT_OPEN"
