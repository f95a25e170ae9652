"""doctor says whether Spark starts from a class data archive."""

from pathlib import Path

import pytest

from cqrs_cli.cli.checks.project import check_this_machine
from cqrs_cli.jobs.engine.class_archive import class_archive
from cqrs_cli.system.java import find_java


def spark_details() -> list[str]:
    return [check.detail for check in check_this_machine() if check.name == "spark"]


def test_doctor_names_the_class_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CQRS_CACHE_DIR", str(tmp_path))
    assert spark_details()[-1].endswith("it starts a third faster after cqrs warm")
    archive = class_archive(find_java())
    archive.touch()
    assert spark_details()[-1] == f"starts from the class data archive {archive}"
