"""The doctor's checks of process managers: their topics, and the ACLs that they need."""

from datetime import timedelta

import pytest

from cqrs_cli.doctor import cluster
from cqrs_cli.doctor.check import Check
from cqrs_cli.following.processes.load import load_process
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.following.processes.process_harness import ProcessHarness
from tests.support import ROOT
from tests.support.topic_settings import configure

pytestmark = pytest.mark.kafka


@pytest.fixture
def harness(connection: Connection, prefix: str) -> ProcessHarness:
    return ProcessHarness(connection, prefix)


def checks(harness: ProcessHarness) -> list[Check]:
    use = load_process("checkout", ROOT, "aggregates").use(harness.prefix)
    aggregates = [Topics("order", harness.prefix)]
    return list(cluster.check_cluster(harness.connection, aggregates, timedelta(days=1), ("run",), [use]))


def of_processes(harness: ProcessHarness) -> list[tuple[str, str]]:
    return [(one.status, one.detail) for one in checks(harness) if one.name == "processes"]


def test_positions_are_checked(harness: ProcessHarness) -> None:
    hears = f"{harness.events}, {harness.topic('events')}"
    assert of_processes(harness) == [("ok", f"checkout: hears {hears}")]
    configure(harness.connection, harness.topics.positions, {"cleanup.policy": "delete"})
    (check,) = of_processes(harness)
    assert check[0] == "fail" and "needs compact: positions would be deleted" in check[1]
    harness.delete_topics(harness.topics.positions)
    assert of_processes(harness) == [("warn", "checkout has no topic: cqrs run leaves it out")]


def test_needs_of_processes_are_judged(harness: ProcessHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Admin.missing_acls
    asked: list[str] = []

    def noted(admin: Admin, needs: object) -> object:
        listed = list(needs)  # type: ignore[call-overload]
        asked.extend(map(str, listed))
        return missing(admin, listed)

    monkeypatch.setattr(Admin, "missing_acls", noted)
    checks(harness)
    assert any(harness.topics.positions in need for need in asked)
    assert any(harness.topics.group in need for need in asked)
