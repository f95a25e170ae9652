"""The doctor's checks of process managers: their topics, and the ACLs that they need."""

from datetime import timedelta

import pytest

from cqrs_cli.doctor import cluster
from cqrs_cli.doctor.check import Check
from cqrs_cli.following.processes.load import load_process
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.following.processes.process_harness import Stage
from tests.support import ROOT
from tests.support.topic_settings import configure

pytestmark = pytest.mark.kafka


@pytest.fixture
def stage(connection: Connection, prefix: str) -> Stage:
    return Stage(connection, prefix)


def checks(stage: Stage) -> list[Check]:
    use = load_process("checkout", ROOT, "aggregates").use(stage.prefix)
    aggregates = [Topics("order", stage.prefix)]
    return list(cluster.check_cluster(stage.connection, aggregates, timedelta(days=1), ("run",), [use]))


def of_processes(stage: Stage) -> list[tuple[str, str]]:
    return [(one.status, one.detail) for one in checks(stage) if one.name == "processes"]


def test_positions_are_checked(stage: Stage) -> None:
    hears = f"{stage.events}, {stage.topic('events')}"
    assert of_processes(stage) == [("ok", f"checkout: hears {hears}")]
    configure(stage.connection, stage.topics.positions, {"cleanup.policy": "delete"})
    (check,) = of_processes(stage)
    assert check[0] == "fail" and "needs compact: positions would be deleted" in check[1]
    stage.delete(stage.topics.positions)
    assert of_processes(stage) == [("warn", "checkout has no topic: cqrs run leaves it out")]


def test_needs_of_processes_are_judged(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Admin.missing_acls
    asked: list[str] = []

    def noted(admin: Admin, needs: object) -> object:
        listed = list(needs)  # type: ignore[call-overload]
        asked.extend(map(str, listed))
        return missing(admin, listed)

    monkeypatch.setattr(Admin, "missing_acls", noted)
    checks(stage)
    assert any(stage.topics.positions in need for need in asked)
    assert any(stage.topics.group in need for need in asked)
