"""An aggregate that cannot be loaded, or has no topics yet, does not affect the other aggregates."""

import shutil
from pathlib import Path

import pytest

from cqrs_cli.deciding.prepare import aggregates_without_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.settings.settings import load_settings
from tests.cli.conftest import Cqrs
from tests.support import AGGREGATES

LOAD_ERROR = "left out: aggregates/broken.py:1: ZeroDivisionError: division by zero"


@pytest.fixture
def cqrs_with_broken_aggregate(cqrs: Cqrs, tmp_path: Path) -> Cqrs:
    """`cqrs` in a project of two aggregates that can be loaded and a third that cannot."""
    (tmp_path / "aggregates").unlink()
    package = tmp_path / "aggregates"
    package.mkdir()
    shutil.copy(AGGREGATES / "counter.py", package / "counter.py")
    shutil.copy(AGGREGATES / "counter.py", package / "fresh.py")
    (package / "broken.py").write_text("1 / 0\n")
    return cqrs


def test_other_aggregates_are_described(cqrs_with_broken_aggregate: Cqrs) -> None:
    result = cqrs_with_broken_aggregate("describe")
    assert result.status == 0 and "counter" in result.out and LOAD_ERROR in result.err


def test_named_broken_aggregate_fails(cqrs_with_broken_aggregate: Cqrs) -> None:
    result = cqrs_with_broken_aggregate("describe", "broken")
    assert result.status == 3 and "error: aggregates/broken.py:1: ZeroDivisionError" in result.err


def test_project_of_broken_aggregates_fails(cqrs_with_broken_aggregate: Cqrs, tmp_path: Path) -> None:
    for name in ("counter", "fresh"):
        (tmp_path / "aggregates" / f"{name}.py").unlink()
    result = cqrs_with_broken_aggregate("describe")
    assert result.status == 3 and "error: aggregates/broken.py:1" in result.err


@pytest.mark.kafka
def test_other_aggregates_get_topics_and_status(
    cqrs_with_broken_aggregate: Cqrs, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    broker_flags = ("-b", connection.bootstrap_server, "--topic-prefix", prefix)
    assert cqrs_with_broken_aggregate("init", "counter", *broker_flags).status == 0
    settings = load_settings({"topic_prefix": prefix}, tmp_path)
    assert aggregates_without_topics(settings, connection, ["counter", "fresh"]) == ["fresh"]
    assert (
        aggregates_without_topics(settings, connection, ["fresh"]) == []
    )  # `prepare` reports missing topics
    result = cqrs_with_broken_aggregate("status", *broker_flags)
    assert result.status == 0 and "counter" in result.out and LOAD_ERROR in result.err
    result = cqrs_with_broken_aggregate("init", *broker_flags)
    assert result.status == 3 and "fresh.commands" in result.out and LOAD_ERROR in result.err
    assert aggregates_without_topics(settings, connection, ["counter", "fresh"]) == []
