"""A run's counters, for programs on this machine alone."""

import os
import urllib.request

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.jobs.run.metrics import Metrics
from cqrs_cli.jobs.run.progress import Snapshot
from cqrs_cli.owner.claim import Counts
from cqrs_cli.owner.plan import Partition
from tests.support.listening import anywhere, listening, open_to_others


def test_open_listener_would_be_seen() -> None:
    with anywhere() as server:
        assert server.getsockname()[1] in open_to_others(os.getpid())
    assert server.fileno() == -1


@pytest.mark.pins("no-foreign-code")
def test_metrics_listen_on_loopback_only() -> None:
    before = listening(os.getpid())
    metrics = Metrics(0)
    try:
        added = {port: at for port, at in listening(os.getpid()).items() if port not in before}
        assert [str(address) for address in added.values()] == ["127.0.0.1"]
        metrics.update(Snapshot(0.0, {Partition("counter", 1): Counts(accepted=3, events=3)}, lag=7))
        (port,) = added
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            said = answer.read().decode()
        assert 'cqrs_commands_total{aggregate="counter",partition="1",status="accepted"} 3.0' in said
        assert "cqrs_lag 7.0" in said
        with pytest.raises(ConfigurationError, match=f"port {port} cannot be used"):
            Metrics(port)
    finally:
        metrics.close()
