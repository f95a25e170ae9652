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
from tests.support.topic_settings import configure_topic

pytestmark = pytest.mark.kafka


@pytest.fixture
def harness(connection: Connection, prefix: str) -> ProcessHarness:
    return ProcessHarness(connection, prefix)


def run_checks(harness: ProcessHarness) -> list[Check]:
    access = load_process("checkout", ROOT, "aggregates").topic_access(harness.prefix)
    aggregates = [Topics("order", harness.prefix)]
    return list(cluster.check_cluster(harness.connection, aggregates, timedelta(days=1), ("run",), [access]))


def process_checks(harness: ProcessHarness) -> list[tuple[str, str]]:
    return [(check.status, check.detail) for check in run_checks(harness) if check.name == "processes"]


def test_positions_are_checked(harness: ProcessHarness) -> None:
    event_topics = f"{harness.events}, {harness.topic('events')}"
    assert process_checks(harness) == [("ok", f"checkout: subscribes to {event_topics}")]
    configure_topic(harness.connection, harness.topics.positions_topic, {"cleanup.policy": "delete"})
    (check,) = process_checks(harness)
    assert check[0] == "fail" and "needs compact: positions would be deleted" in check[1]
    harness.delete_topics(harness.topics.positions_topic)
    assert process_checks(harness) == [("warn", "checkout has no topic: cqrs run leaves it out")]


def test_acls_of_processes_are_checked(harness: ProcessHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    missing_acls = Admin.missing_acls
    checked_acls: list[str] = []

    def record_acls(admin: Admin, needs: object) -> object:
        acls = list(needs)  # type: ignore[call-overload]
        checked_acls.extend(map(str, acls))
        return missing_acls(admin, acls)

    monkeypatch.setattr(Admin, "missing_acls", record_acls)
    run_checks(harness)
    assert any(harness.topics.positions_topic in need for need in checked_acls)
    assert any(harness.topics.group in need for need in checked_acls)
