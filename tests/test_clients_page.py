"""docs/clients.md is correct: its programs send, read and survive kills."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cqrs_cli import registry
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.topics.partitioner import partition_for
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from tests.support import ROOT
from tests.support.commands import mixed_commands
from tests.support.java import find_compiler, launch_command
from tests.support.page import Page
from tests.support.simple_owner import SimpleOwner
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from cqrs_cli.kafka.connection.connection import Connection

PAGE = Page("docs/clients.md")
CLIENT, CONSUMER, PRODUCER = PAGE.blocks("python")
JAVA, SPRING = PAGE.blocks("java")
(DEPENDENCIES,) = PAGE.blocks("xml")
(GO,) = PAGE.blocks("go")
(SCRIPT,) = PAGE.blocks("javascript")


def python(program: str, folder: Path, **environment: str) -> None:
    variables = {**os.environ, **environment}
    subprocess.run([sys.executable, "-c", program], cwd=folder, env=variables, check=True)


@pytest.fixture
def bank(connection: "Connection", prefix: str) -> Topics:
    topics = Topics("bank_account", prefix)
    with Admin(connection) as admin:
        ensure_topics(admin, topics, TopicPlan())
    return topics


def outcome_text(connection: "Connection", topics: Topics, account: str) -> str:
    """Return the outcomes of the commands on the account's partition, by the rules that the owner applies."""
    partition = partition_for("murmur2", account.encode(), 4) or 0
    aggregate: Aggregate = registry.load("bank_account", "aggregates", ROOT)
    open_account = VersionedState(1, aggregate.decider.initial, 0, 0)
    ((_, end),) = readers.bounds(connection, topics.commands, [partition]).values()
    (records,) = readers.read(connection, topics.commands, partition, 0, end)
    context = BatchContext(
        partition,
        lambda _: open_account,
        lambda *_: None,
        lambda: 0,
        lambda key: partition_for("murmur2", key, 4) or 0,
    )
    ((value, _, _),) = decide_batch(aggregate, records, context).outcomes
    return read_outcome(value).data.code or read_outcome(value).data.status


@pytest.mark.kafka
def test_command_of_the_python_producer_is_decided(
    connection: "Connection", bank: Topics, tmp_path: Path
) -> None:
    program = PRODUCER.replace("bank_account.commands", bank.commands)
    python(program, tmp_path, SERVER=connection.bootstrap_server)
    assert outcome_text(connection, bank, "acc-42") == "NOT_OPEN"


@pytest.mark.kafka
def test_client_gets_its_outcomes(
    connection: "Connection", bank: Topics, prefix: str, tmp_path: Path
) -> None:
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "aggregates").symlink_to(ROOT / "aggregates")
    environment = {"CQRS_BOOTSTRAP_SERVER": connection.bootstrap_server, "CQRS_TOPIC_PREFIX": prefix}
    owner = SimpleOwner(connection, bank, registry.load("bank_account", "aggregates", ROOT))
    with owner.decide_in_background():
        python(CLIENT, tmp_path, **environment)
    assert (owner.states["acc-42"].version, owner.states["acc-42"].state.balance) == (2, 100)  # type: ignore[attr-defined]


def test_consumer_is_short() -> None:
    assert len(CONSUMER.splitlines()) <= 45


@pytest.mark.kafka
@pytest.mark.parametrize("seed", [1, 2])
def test_consumers_survive_kills(connection: "Connection", bank: Topics, tmp_path: Path, seed: int) -> None:
    """The consumer is killed many times and once started twice. It ends with the rows of a fold in one go."""
    choice = random.Random(seed)
    owner = SimpleOwner(connection, bank, registry.load("bank_account", "aggregates", ROOT))
    producer = CommandProducer(connection, "murmur2", bulk=True)
    for command in mixed_commands(3000, seed=seed):
        if command.key is not None:
            producer.send(bank.commands, command.key, command.value or b"")
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
                return {}  # the table does not exist yet

    def read() -> int:
        return sum(rows("SELECT partition, next FROM positions").values())

    while read() < sum(ends.values()):
        position = min(read() + choice.randrange(1, 600), sum(ends.values()))
        consumers = [
            subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=environment)
            for _ in range(choice.choice([1, 1, 2]))
        ]
        eventually(lambda position=position: read() >= position)  # type: ignore[misc]
        for process in consumers:
            process.kill()
            process.wait()
    assert rows("SELECT partition, next FROM positions") == ends
    changed = {
        id: balance for id, balance in expected.items() if balance or id in rows("SELECT * FROM balances")
    }
    assert rows("SELECT account, balance FROM balances") == changed


@pytest.mark.kafka
def test_command_of_the_java_producer_is_decided(
    connection: "Connection", bank: Topics, tmp_path: Path
) -> None:
    (tmp_path / "Deposit.java").write_text(JAVA.replace("bank_account.commands", bank.commands))
    command_line = launch_command("Deposit.java", connection.bootstrap_server, "acc-7")
    subprocess.run(command_line, cwd=tmp_path, check=True, capture_output=True)
    assert outcome_text(connection, bank, "acc-7") == "NOT_OPEN"


@pytest.mark.nightly
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("mvn"), reason="needs Maven")
def test_spring_sends_and_reads(connection: "Connection", bank: Topics, tmp_path: Path) -> None:
    program = find_compiler()
    (tmp_path / "DepositWithSpring.java").write_text(with_topics(SPRING, bank))
    head = (
        "<modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>b</artifactId><version>1</version>"
    )
    (tmp_path / "pom.xml").write_text(f"<project>{head}<dependencies>{DEPENDENCIES}</dependencies></project>")
    resolve = ["mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath"]
    subprocess.run(resolve, cwd=tmp_path, check=True, capture_output=True)
    command_line = [program, "-cp", (tmp_path / "classpath").read_text(), "DepositWithSpring.java"]
    assert output_of(connection, bank, command_line, tmp_path) == "bank_account.Deposit.rejected"


@pytest.mark.nightly
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("go"), reason="needs Go")
def test_go_sends_and_reads(connection: "Connection", bank: Topics, tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text(with_topics(GO, bank))
    for line in ("go mod init deposit", "go mod tidy", "go build -o deposit ."):
        subprocess.run(line.split(), cwd=tmp_path, check=True, capture_output=True)
    assert (
        output_of(connection, bank, [str(tmp_path / "deposit")], tmp_path) == "bank_account.Deposit.rejected"
    )


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("npm"), reason="needs Node.js")
def test_javascript_sends_and_reads(connection: "Connection", bank: Topics, tmp_path: Path) -> None:
    (tmp_path / "deposit.mjs").write_text(with_topics(SCRIPT, bank))
    install = ["npm", "install", "--silent", "--no-audit", "cloudevents@10", "kafkajs@2", "lz4js@0.2"]
    subprocess.run(install, cwd=tmp_path, check=True, capture_output=True)
    assert output_of(connection, bank, ["node", "deposit.mjs"], tmp_path) == "bank_account.Deposit.rejected"


def with_topics(program: str, bank: Topics) -> str:
    """Return the program with the topics of this test."""
    return program.replace("bank_account.commands", bank.commands).replace(
        "bank_account.outcomes", bank.outcomes
    )


def output_of(connection: "Connection", bank: Topics, program: list[str], folder: Path) -> str:
    """Return the output of a program that sends a command and waits for its outcome."""
    owner = SimpleOwner(connection, bank, registry.load("bank_account", "aggregates", ROOT))
    with owner.decide_in_background():
        command = [*program, connection.bootstrap_server, "acc-9"]
        return subprocess.check_output(command, cwd=folder, text=True, timeout=120).strip()
