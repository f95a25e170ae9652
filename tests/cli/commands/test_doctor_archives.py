"""`cqrs doctor` names the class data archives from which JVMs start."""

from pathlib import Path

import pytest

from cqrs_cli.cli.checks.project import check_this_machine
from cqrs_cli.jobs.engine.spark_archive import spark_archive
from cqrs_cli.kafka.embedded.jars import cache_folder
from cqrs_cli.kafka.embedded.process import broker_archive
from cqrs_cli.system.java import find_java
from tests.support.archives import write_archive


def archive_details() -> list[str]:
    return [check.detail for check in check_this_machine() if check.name == "archives"]


@pytest.mark.program
def test_doctor_names_the_class_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CQRS_CACHE_DIR", str(tmp_path))
    java = find_java()
    assert archive_details() == [
        "Spark has no class data archive; cqrs warm creates one, so that it starts sooner",
        "the embedded Kafka has no class data archive; cqrs warm creates one, so that it starts sooner",
    ]
    spark = write_archive(spark_archive(java), b"classes")
    broker = write_archive(broker_archive(java, cache_folder()), b"classes")
    assert archive_details() == [f"Spark starts from {spark}", f"the embedded Kafka starts from {broker}"]
