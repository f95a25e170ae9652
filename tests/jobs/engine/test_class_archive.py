"""Spark's JVM starts from its class data archive where there is one, and without it in any case."""

import json
from pathlib import Path

import pytest

from cqrs_cli.cli.main import main
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.jobs.engine.class_archive import DRIVER_OPTIONS, archive_option, class_archive
from cqrs_cli.jobs.engine.session import session
from cqrs_cli.jobs.warm import make_archive
from cqrs_cli.system.java import find_java


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


@pytest.mark.spark
@pytest.mark.faults
def test_spark_starts_from_its_archive(cache: Path, tmp_path: Path) -> None:
    """In `make faults`: to write an archive takes both cores half a minute. Every run of the tests starts from one."""
    make_archive(find_java())
    archive = class_archive(find_java())
    assert list(cache.iterdir()) == [archive]
    assert classes_from_archive(tmp_path) > 1000
    archive.unlink()
    archive.write_bytes(b"no archive")
    assert classes_from_archive(tmp_path) == 0


@pytest.mark.spark
def test_archive_is_written_once(cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    java = find_java()
    assert archive_option(java) == ""
    archive = class_archive(java)
    archive.parent.mkdir()
    archive.write_bytes(b"written before")
    assert main(["warm", "-o", "json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"archive": str(archive), "bytes": 14}
    assert archive_option(java) == f'"-XX:SharedArchiveFile={archive}"'


@pytest.mark.spark
def test_cache_that_is_no_folder_is_named(cache: Path) -> None:
    cache.write_bytes(b"")
    with pytest.raises(ConfigurationError, match=r"cannot write .*a cache/spark-"):
        make_archive(find_java())
