"""The job of `cqrs warm`: a Spark that loads what jobs load, and writes its classes into the archive when it ends."""

import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.jobs.engine.class_archive import AT_EXIT, DRIVER_OPTIONS, class_archive
from cqrs_cli.jobs.engine.session import dataframes, session

if TYPE_CHECKING:
    from pyspark import SparkContext


def make_archive(java: Path) -> None:
    """Write the archive for this `java`, where there is none.

    Raises `ConfigurationError` if the cache cannot be written, and what a session raises.
    """
    archive = class_archive(java)
    fresh = archive.with_name(f"{archive.name}.{os.getpid()}")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        _write(fresh)
        fresh.replace(archive)  # who starts meanwhile has all of it, or none
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {archive}: {error.strerror or error}",
            "make room or name another folder in CQRS_CACHE_DIR",
        ) from error
    finally:
        with suppress(OSError):
            fresh.unlink()


def _write(archive: Path) -> None:
    options = {DRIVER_OPTIONS: f'"{AT_EXIT}={archive}"'}
    with (
        TemporaryDirectory() as folder,
        session("local[1]", options, Path(folder) / "warm.log", "cqrs warm") as context,
    ):
        _load(context)


def _load(context: "SparkContext") -> None:
    """Have the JVM load what jobs load: tasks in Python, and queries."""
    context.parallelize([1], 1).map(str).count()
    dataframes(context).range(1).selectExpr("sum(id)").collect()
