"""Spark's JVM starts from its class data archive if it exists, and without it otherwise."""

import subprocess
import sys
from pathlib import Path

import pytest

from cqrs_cli.jobs.engine.spark_archive import executor_archive, quote_options, spark_archive
from cqrs_cli.system.java import find_java
from tests.support.archives import write_archive

pytestmark = pytest.mark.spark

#: Starts Spark in a new process, because the tests may have a session already. It logs the classes that it loads.
START_PROGRAM = """
import sys
from pathlib import Path
from cqrs_cli.jobs.engine.session import session
from cqrs_cli.jobs.engine.spark_archive import DRIVER_OPTIONS
folder = Path(sys.argv[1])
options = {DRIVER_OPTIONS: f"-Xlog:class+load:file={folder}/classes.log"}
with session("local[1]", options, folder / "spark.log", "archived") as context:
    assert context.parallelize([1], 1).count() == 1
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, whose path contains a space."""
    folder = tmp_path / "a cache"
    monkeypatch.setenv("CQRS_CACHE_DIR", str(folder))
    return folder


def classes_from_archive(folder: Path) -> int:
    """Return the number of classes that a Spark loads from the archive."""
    subprocess.run([sys.executable, "-c", START_PROGRAM, folder], check=True, timeout=120)
    return (folder / "classes.log").read_text().count("source: shared objects file (top)")


@pytest.mark.nightly
def test_spark_starts_from_its_archive(cache: Path, tmp_path: Path) -> None:
    """Part of `make nightly`, because writing archives takes both cores half a minute."""
    command = [sys.executable, "-m", "cqrs_cli", "warm", "spark", "executors", "-q"]
    subprocess.run(command, check=True, timeout=300)
    java = find_java()
    assert {*cache.glob("*.jsa")} == {spark_archive(java).find(), executor_archive(java).find()}
    assert classes_from_archive(tmp_path) > 1000


def test_broken_archive_is_ignored(cache: Path, tmp_path: Path) -> None:
    """Java itself validates the archive."""
    archive = spark_archive(find_java())
    file = write_archive(archive, b"no archive")
    assert quote_options(archive.options).startswith(f'"-XX:SharedArchiveFile={file}"')
    assert classes_from_archive(tmp_path) == 0
