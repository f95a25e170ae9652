"""The command line of a broker."""

from pathlib import Path

import pytest

from cqrs_cli.kafka.embedded import files
from cqrs_cli.kafka.embedded.process import spawn_broker
from tests.support.waiting import eventually


@pytest.mark.parametrize("brief", [False, True])
def test_brief_brokers_compile_fast(tmp_path: Path, brief: bool) -> None:
    """Only brief brokers limit the JIT compiler, because a longer running broker would stay slower."""
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\necho "$@"\n')
    java.chmod(0o700)
    spawn_broker(java, Path("jars"), tmp_path, "id", (1, 2), short_lived=brief)
    log = tmp_path / files.LOG_FILE
    eventually(lambda: log.exists() and "kafka.Kafka" in log.read_text())
    assert ("-XX:TieredStopAtLevel=1" in log.read_text()) is brief
