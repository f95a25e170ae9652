"""The installed command, driven as a user and a CI job would: every number it prints must agree with every other."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.core.uuid7 import uuid7
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.connection import Connection
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
EXPECTED = {"accepted": 700, "unchanged": 50, "rejected": 150, "duplicate": 50, "failed": 50}


class Project:
    """A folder with the aggregates, whose `cqrs` runs as a process of its own."""

    def __init__(self, folder: Path, connection: Connection, prefix: str) -> None:
        self.folder, self.connection, self.prefix = folder, connection, prefix
        self.environment = os.environ | {
            "CQRS_BOOTSTRAP_SERVER": connection.bootstrap_server,
            "CQRS_TOPIC_PREFIX": prefix,
        }

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """`cqrs` in a session of its own, as under a service manager."""
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("cqrs")), *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def cqrs(self, *arguments: str) -> str:
        """What a call prints; it must succeed."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
        return out

    def json(self, *arguments: str) -> dict[str, Any]:
        """The one document that a call prints."""
        return dict(json.loads(self.cqrs(*arguments, "-o", "json")))

    def send(self, lines: list[dict[str, Any]]) -> None:
        """Commands by file, as a user would."""
        file = self.folder / f"{uuid7()}.ndjson"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert self.json("send", "--file", str(file))["sent"] == len(lines)

    def send_malformed(self, count: int) -> None:
        """Records that are no commands, as another program might send them."""
        producer = clients.producer(self.connection)
        for number in range(count):
            producer.produce(f"{self.prefix}bank_account.commands", b"?", f"m-{number}".encode(), number % 4)
        assert producer.flush(30) == 0

    def outcomes(self) -> list[dict[str, Any]]:
        """Every outcome there is."""
        lines = self.cqrs("tail", "bank_account", "outcomes", "-o", "json").splitlines()
        return [json.loads(line)["message"] for line in lines]


@pytest.fixture
def project(tmp_path: Path, connection: Connection, prefix: str) -> Iterator[Project]:
    (tmp_path / "cqrs.toml").touch()
    shutil.copytree(
        ROOT / "aggregates", tmp_path / "aggregates", ignore=shutil.ignore_patterns("__pycache__")
    )
    yield Project(tmp_path, connection, prefix)


def command(name: str, subject: str, data: dict[str, Any] | None = None, **attributes: Any) -> dict[str, Any]:
    return {
        "type": f"bank_account.{name}",
        "subject": subject,
        "id": uuid7(),
        "data": data or {},
        **attributes,
    }


def halves() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """950 commands that come to every outcome but `failed`."""
    opened = [command("Open", f"a-{n}", {"owner": "ann"}) for n in range(100)]
    closed = [command("Open", f"c-{n}", {"owner": "bob"}) for n in range(50)]
    deposits = [command("Deposit", f"a-{n % 100}", {"amount": 1}) for n in range(500)]
    first = [*opened, *closed, *(command("Close", f"c-{n}") for n in range(50)), *deposits[:250]]
    second = [
        *deposits[250:],
        *(command("Close", f"c-{n}") for n in range(50)),
        *(command("Withdraw", f"a-{n}", {"amount": 1000}) for n in range(100)),
        *(command("Deposit", f"a-{n}", {"amount": 1}, expectedversion="99") for n in range(50)),
        *opened[:50],
    ]
    return first, second


def check_the_end(project: Project) -> None:
    """One outcome for each record, and the same state from the log and in the shards."""
    outcomes = project.outcomes()
    assert Counter(outcome["data"]["status"] for outcome in outcomes) == EXPECTED
    assert len({outcome["id"] for outcome in outcomes}) == 1000
    replayed = project.json("replay", "bank_account")
    assert (replayed["aggregates"], replayed["events"]) == (150, 700)
    status = project.json("status", "bank_account", "--digest")
    assert status["aggregates"]["bank_account"]["digest"] == replayed["digest"]
    assert status["lag"] == 0
    assert project.json("show", "bank_account", "a-7")["state"]["balance"] == 5


def test_a_thousand_commands_come_out_as_they_should(project: Project) -> None:
    assert {topic["result"] for topic in project.json("init", "bank_account")["topics"]} == {"created"}
    for half in halves():
        project.send(half)
    project.send_malformed(50)
    done = project.json("run", "bank_account", "--once")
    assert {status: done[status] for status in EXPECTED} == EXPECTED
    assert (done["commands"], done["events"]) == (1000, 700)
    check_the_end(project)
    assert project.json("run", "bank_account", "--once")["commands"] == 0


def test_a_run_that_is_killed_in_the_middle_loses_and_repeats_nothing(project: Project) -> None:
    project.cqrs("init", "bank_account")
    first, second = halves()
    project.send(first)
    run = project.start("run", "bank_account", "--quiet")
    eventually(lambda: len(project.outcomes()) == len(first), within=90)
    project.send(second)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate(timeout=30)
    project.send_malformed(50)
    project.cqrs("run", "bank_account", "--once")
    check_the_end(project)
