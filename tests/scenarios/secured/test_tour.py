"""All commands as separate processes, each by a user with the ACLs of its role. No secret appears anywhere."""

import json
import shutil
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from cqrs_cli.jobs.engine.session import DAEMON
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.acls import Role, required_acls
from cqrs_cli.kafka.topics.topics import Topics
from tests.scenarios.secured.acls import grant
from tests.scenarios.secured.broker import SECRET, SecuredBroker
from tests.support import ROOT
from tests.support.absent_broker import free_port
from tests.support.listening_sockets import reachable_sockets
from tests.support.processes import process_tree
from tests.support.project import Project

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

#: Modules of these names in the project's folder, the working directory of all processes, must not be imported.
SHADOWING_MODULES = ("queue", "heapq", "decimal", "msgspec", "lmdb", "confluent_kafka", "sitecustomize")
LOCAL_MASTER = ("--master", "local[2]")


class SecuredProject(Project):
    """A project whose `cqrs` logs in by `--command-config`. Keeps the output of all commands."""

    def __init__(self, folder: Path, broker: SecuredBroker, prefix: str) -> None:
        super().__init__(folder, Connection(broker.address("SASL")), prefix)
        del self.environment["CQRS_BOOTSTRAP_SERVER"]
        self.outputs: list[str] = []

    def run_as(self, config: Path, *arguments: str) -> Any:
        """Run a command, which must succeed, and return the JSON document that it prints."""
        process = self.start(*arguments, "--command-config", str(config), "-o", "json", "-v")
        out, err = process.communicate(timeout=180)
        self.outputs += [out, err]
        assert process.returncode == 0, out + err
        lines = [json.loads(line) for line in out.splitlines()]
        return lines if arguments[0] == "tail" else lines[0]


@pytest.fixture
def secured_project(tmp_path: Path, secured: SecuredBroker, prefix: str) -> SecuredProject:
    (tmp_path / "cqrs.toml").touch()
    for name in SHADOWING_MODULES:
        (tmp_path / f"{name}.py").write_text("open('went-off', 'w')\n")
    (tmp_path / "aggregates").mkdir()
    shutil.copy(ROOT / "aggregates" / "counter.py", tmp_path / "aggregates")
    return SecuredProject(tmp_path, secured, prefix)


@pytest.fixture
def users(secured: SecuredBroker, prefix: str) -> dict[str, Path]:
    """Create a user with a password and ACLs for each role. Return the files of client properties by role."""
    users_by_name = {}
    for role in get_args(Role):
        user = f"{prefix}{role}"
        secured.add_users(user)
        grant(secured, user, required_acls(role, Topics("counter", prefix)))
        users_by_name[str(role)] = secured.login(user)
    return users_by_name


def command_lines() -> Iterator[str]:
    """Yield the command lines of all processes, as `ps` shows them."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            pass  # the process has ended


def environments(pids: set[int]) -> Iterator[str]:
    for pid in pids:
        try:
            yield Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        except OSError:
            pass


def ui_pages(port: int) -> Iterator[str]:
    """Yield the pages of Spark's UI, and its REST responses."""
    base = f"http://127.0.0.1:{port}"

    def get(path: str) -> str:
        with urllib.request.urlopen(base + path, timeout=30) as response:
            return str(response.read().decode())

    (application,) = json.loads(get("/api/v1/applications"))
    for path in ("/environment/", "/jobs/", "/stages/", "/executors/", "/storage/"):
        yield get(path)
    for path in ("environment", "jobs", "stages?details=true", "allexecutors", "storage/rdd"):
        yield get(f"/api/v1/applications/{application['id']}/{path}")


def files_with_contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path, path.read_bytes()


@pytest.mark.covers("no-foreign-code")
def test_each_role_works_without_leaking_secrets(
    secured: SecuredBroker, secured_project: SecuredProject, users: dict[str, Path]
) -> None:
    """Each role can do its work, and no secret is in `ps`, environments, Spark's UI and logs, or any output."""
    project, port = secured_project, free_port()
    project.run_as(users["init"], "init", "counter", "--partitions", "2")
    event_log_folder = project.folder / "spark-events"
    event_log_folder.mkdir()
    conf = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_log_folder.as_uri(),
    }
    flags = [flag for name, value in conf.items() for flag in ("--conf", f"{name}={value}")]
    login_options = ("--command-config", str(users["run"]))
    with project.running("run", "counter", *LOCAL_MASTER, *flags, *login_options, "-v") as run:
        outcome = project.run_as(
            users["send"], "send", "counter", "a", "Increment", "--wait", "--timeout", "120s"
        )
        assert outcome["data"]["status"] == "accepted"
        pids = process_tree(run.pid)
        texts = [*command_lines(), *environments(pids), *ui_pages(port)]
        assert [reachable_sockets(pid) for pid in pids] == [{}] * len(pids)
        run.send_signal(signal.SIGTERM)
        assert run.wait(90) == 143
        project.outputs += [run.stdout.read() if run.stdout else "", run.stderr.read() if run.stderr else ""]
    reader = users["read"]
    assert project.run_as(reader, "show", "counter", "a")["state"] == {"value": 1}
    assert [line["message"]["type"] for line in project.run_as(reader, "tail", "counter", "events")] == [
        "counter.Incremented"
    ]
    status = project.run_as(reader, "status", "counter", "--digest")
    replayed = project.run_as(reader, "replay", "counter", *LOCAL_MASTER)
    assert status["digest"] == replayed["digest"]
    for role, config in users.items():
        assert project.run_as(config, "doctor", "--for", role)["ok"]
    assert any(DAEMON in line for line in texts)
    assert [text for text in (*texts, *project.outputs) if SECRET in text] == []
    assert not (project.folder / "went-off").exists()
    contents = dict(files_with_contents(project.folder))
    assert any(path.is_relative_to(event_log_folder) for path in contents)
    assert [path for path, content in contents.items() if SECRET.encode() in content] == []


@pytest.mark.nightly
def test_certificates_work_like_passwords(
    secured: SecuredBroker, secured_project: SecuredProject, prefix: str
) -> None:
    user, topics = f"{prefix}certified", Topics("counter", prefix)
    grant(secured, user, {need for role in get_args(Role) for need in required_acls(role, topics)})
    project, config = secured_project, secured.certificate(user)
    project.run_as(config, "init", "counter")
    project.run_as(config, "send", "counter", "a", "Increment")
    assert project.run_as(config, "run", "counter", "--once", *LOCAL_MASTER)["accepted"] == 1
    assert project.run_as(config, "show", "counter", "a")["version"] == 1
    assert project.run_as(config, "replay", "counter", *LOCAL_MASTER)["events"] == 1
    assert project.run_as(config, "verify", "counter", "--state", *LOCAL_MASTER)["violation_count"] == 0
    assert project.run_as(config, "status", "counter")["lag"] == 0
    assert project.run_as(config, "doctor")["ok"]
