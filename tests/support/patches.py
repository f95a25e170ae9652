"""Fixtures that several parts of the tests patch with."""

import pytest


@pytest.fixture
def unwarmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners fold nothing before they fence."""
    monkeypatch.setattr("cqrs_cli.deciding.supervisor.warm", lambda *_: None)


@pytest.fixture
def no_young_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """An open transaction that hides commands is named at once."""
    monkeypatch.setattr("cqrs_cli.kafka.admin.transactions.YOUNG_MS", 0)
