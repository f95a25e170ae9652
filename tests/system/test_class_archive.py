"""A class data archive is complete or missing, and is written once."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from cqrs_cli.cli.main import main
from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.jobs.engine.spark_archive import executor_archive, spark_archive
from cqrs_cli.kafka.embedded.jars import cache_folder
from cqrs_cli.kafka.embedded.process import broker_archive
from cqrs_cli.system.class_archive import AT_EXIT_OPTION, ClassArchive
from cqrs_cli.system.java import find_java
from tests.support.archives import write_archive


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("CQRS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def archive(tmp_path: Path) -> ClassArchive:
    """The archive of a program on a fake Java that has a base archive."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o700)
    return ClassArchive(java, "program-1", tmp_path)


def archive_path_of(options: Sequence[str]) -> Path:
    """Return the path to which a JVM with these options writes its archive."""
    (option,) = (option for option in options if option.startswith(AT_EXIT_OPTION))
    return Path(option.partition("=")[2])


def fail(*_: object) -> None:
    raise AssertionError("a JVM was started, or the test waited")


def test_archive_is_found_once_written(archive: ClassArchive, cache: Path) -> None:
    assert archive.options == []
    path = archive.write(lambda options: archive_path_of(options).write_bytes(b"classes"), fail)
    assert archive.options[0] == f"-XX:SharedArchiveFile={path}"
    assert archive.write(fail, fail) == path
    assert [file for file in cache.iterdir() if file.suffix != ".lock"] == [path]


def test_archive_is_of_one_java(archive: ClassArchive, tmp_path: Path) -> None:
    write_archive(archive, b"classes")
    for other in (
        ClassArchive(Path("/bin/sh"), archive.program, archive.jars),
        ClassArchive(archive.java, "program-2", archive.jars),
        ClassArchive(archive.java, archive.program, tmp_path / "elsewhere"),
    ):
        assert other.find() is None
    archive.java.write_text("#!/bin/sh\n# updated\n")
    assert archive.find() is None


def test_truncated_archives_are_written_again(archive: ClassArchive) -> None:
    """Java 17 would crash with a truncated archive."""
    truncated = write_archive(archive, b"cla", size=7)
    assert archive.options == []
    path = archive.write(lambda options: archive_path_of(options).write_bytes(b"all classes"), fail)
    assert path != truncated and not truncated.exists()


@pytest.mark.parametrize("content", [None, bytes(4096)], ids=["nothing", "zeros"])
def test_failed_archive_is_an_error(archive: ClassArchive, cache: Path, content: bytes | None) -> None:
    """A JVM that was killed while writing leaves zeros at the start."""
    with pytest.raises(CqrsError, match="Java wrote no class data archive"):
        archive.write(lambda options: content and archive_path_of(options).write_bytes(content), fail)
    assert [file.suffix for file in cache.iterdir()] == [".lock"]


def test_cache_that_is_no_folder_is_named(archive: ClassArchive, cache: Path) -> None:
    cache.write_bytes(b"")
    with pytest.raises(ConfigurationError, match=r"cannot write the cache .*/cache"):
        archive.write(fail, fail)


def test_java_without_an_archive_gets_one(archive: ClassArchive, cache: Path) -> None:
    """The Java on PyPI has no base archive, and writes no other archive without one."""
    archive.java.write_text(
        '#!/bin/sh\n[ "$1" = -Xshare:dump ] && echo base >"${2#-XX:SharedArchiveFile=}"\nexit 1\n'
    )
    calls: list[Sequence[str]] = []

    def write_classes(options: Sequence[str]) -> None:
        calls.append(options)
        archive_path_of(options).write_bytes(b"classes")

    archive.write(write_classes, fail)
    (base,) = cache.glob("java-*.jsa")
    assert calls[0][0] == f"-XX:SharedArchiveFile={base}"


@pytest.mark.spark
def test_warm_writes_no_archive_twice(capfd: pytest.CaptureFixture[str]) -> None:
    java = find_java()
    archives = (spark_archive(java), broker_archive(java, cache_folder()), executor_archive(java))
    spark, _, executor = (write_archive(archive, b"before") for archive in archives)
    expected_documents = [
        {"program": "Spark", "archive": str(spark), "bytes": 6},
        {"program": "an executor", "archive": str(executor), "bytes": 6},
    ]
    for arguments, expected in (([], expected_documents[:1]), (["executors"], expected_documents)):
        assert main(["warm", "spark", *arguments, "-o", "json"]) == 0
        assert [json.loads(line) for line in capfd.readouterr().out.splitlines()] == expected


@pytest.mark.program
@pytest.mark.parametrize("content", [b"", b"no archive", bytes(1 << 20)])
def test_java_ignores_an_invalid_archive(content: bytes) -> None:
    """Java must not print a warning about the archive: its output belongs to the program."""
    archive = ClassArchive(find_java(), "program-1", Path("/"))
    write_archive(archive, content)
    process = subprocess.run([archive.java, *archive.options, "--version"], capture_output=True)
    assert process.returncode == 0
    assert b"cds" not in process.stdout + process.stderr
