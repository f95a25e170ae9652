"""Tests get their settings only from the test itself."""

import pytest

from cqrs_cli.settings.settings import Settings


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"CQRS_{name.upper()}", raising=False)
