from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.collector import Collector

#: Without the extra `otel` these tests are not collected.
collect_ignore_glob = [] if find_spec("opentelemetry") else ["test_*.py"]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> "Iterator[Collector]":
    """A collector that the environment names."""
    from tests.support.collector import collector as running

    with running() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.endpoint)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        yield server
