"""Owners that notice at once: fixtures for the tests that run them in this process."""

import pytest


@pytest.fixture(autouse=True)
def idle_owners_look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no test waits for one to notice that it was fenced."""
    monkeypatch.setattr("cqrs_cli.owner.owner.IDLE_LOOK", 0.1)


@pytest.fixture(autouse=True)
def contradictions_are_believed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no test waits for one to last."""
    monkeypatch.setattr("cqrs_cli.owner.supervisor.CONTRADICTED", 0.0)
