"""Aggregates on the run's one broker."""

from pathlib import Path

import pytest

from cqrs_cli.kafka.connection import Connection
from tests.domain import Domain


@pytest.fixture
def counters(connection: Connection, prefix: str, tmp_path: Path) -> Domain:
    """Counters on one partition."""
    return Domain(connection, prefix, tmp_path)


@pytest.fixture
def bank(connection: Connection, prefix: str, tmp_path: Path) -> Domain:
    """Bank accounts on two partitions."""
    return Domain(connection, prefix, tmp_path, "bank_account", partitions=2)


@pytest.fixture(autouse=True)
def idle_owners_look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no test waits for one to notice that it was fenced."""
    monkeypatch.setattr("cqrs_cli.jobs.tenure.IDLE_LOOK", 0.1)


@pytest.fixture(autouse=True)
def contradictions_are_believed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no test waits for one to last."""
    monkeypatch.setattr("cqrs_cli.jobs.owner.CONTRADICTED", 0.0)
