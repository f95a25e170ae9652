"""The command line of a broker."""

from pathlib import Path

import pytest

from cqrs_cli.kafka.embedded import files
from cqrs_cli.kafka.embedded.process import broker_failure, spawn_broker
from tests.support.waiting import eventually


@pytest.mark.parametrize("short_lived", [False, True])
def test_short_lived_brokers_limit_the_compiler(tmp_path: Path, short_lived: bool) -> None:
    """A broker that runs longer does not limit the JIT compiler, because it would stay slower."""
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\necho "$@"\n')
    java.chmod(0o700)
    spawn_broker(java, Path("jars"), tmp_path, "id", (1, 2), short_lived=short_lived)
    log = tmp_path / files.LOG_FILE
    eventually(lambda: log.exists() and "kafka.Kafka" in log.read_text())
    assert ("-XX:TieredStopAtLevel=1" in log.read_text()) is short_lived


def test_low_file_limit_is_named(tmp_path: Path) -> None:
    log = [
        "java.io.IOException: Too many open files",
        "ERROR Shutdown broker because all log dirs have failed",
    ]
    error = broker_failure(tmp_path, log, "Kafka ended")
    assert str(error) == "Kafka ended: too many open files; raise the limit: ulimit -n 4096"
