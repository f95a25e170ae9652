"""Fixtures that patch, for several folders of tests."""

import pytest


@pytest.fixture
def without_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners fold nothing before they fence."""
    monkeypatch.setattr("cqrs_cli.deciding.supervisor.fold_unfenced", lambda *_: None)


@pytest.fixture
def no_young_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """An open transaction that hides commands is reported at once, at any age."""
    monkeypatch.setattr("cqrs_cli.kafka.admin.transactions.YOUNG_MS", 0)
