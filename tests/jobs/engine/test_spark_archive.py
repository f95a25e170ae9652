"""Spark's JVM starts from its class data archive where there is one, and without it in any case."""

from pathlib import Path

import pytest

from cqrs_cli.jobs.engine.session import session
from cqrs_cli.jobs.engine.spark_archive import DRIVER_OPTIONS, spark_archive, spark_words
from cqrs_cli.jobs.warm import warm_spark
from cqrs_cli.system.java import find_java
from tests.support.archives import put

pytestmark = pytest.mark.spark


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, whose path has a blank."""
    folder = tmp_path / "a cache"
    monkeypatch.setenv("CQRS_CACHE_DIR", str(folder))
    return folder


def classes_from_archive(folder: Path) -> int:
    """How many classes a Spark that starts now takes from the archive."""
    log = folder / "classes.log"
    options = {DRIVER_OPTIONS: f"-Xlog:class+load:file={log}"}
    with session("local[1]", options, folder / "spark.log", "archived") as context:
        assert context.parallelize([1], 1).count() == 1
    return log.read_text().count("source: shared objects file (top)")


@pytest.mark.faults
def test_spark_starts_from_its_archive(cache: Path, tmp_path: Path) -> None:
    """In `make faults`: to write an archive takes both cores half a minute. Every run of the tests starts from one."""
    archive = warm_spark(find_java(), print)
    assert spark_archive(find_java()).find() == archive
    assert list(cache.glob("*.jsa")) == [archive]
    assert classes_from_archive(tmp_path) > 1000


def test_spark_starts_from_no_broken_archive(cache: Path, tmp_path: Path) -> None:
    """Java looks itself at what it is given."""
    archive = spark_archive(find_java())
    broken = put(archive, b"no archive")
    assert spark_words(archive.options).startswith(f'"-XX:SharedArchiveFile={broken}"')
    assert classes_from_archive(tmp_path) == 0
