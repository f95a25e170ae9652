"""`cqrs doctor` reports a Python that was built without its optimizations."""

import pytest

from cqrs_cli.doctor.machine import check_python
from cqrs_cli.system.python import is_optimized


@pytest.mark.parametrize(
    ("arguments", "prefix", "is_optimized_build"),
    [
        ("'--enable-optimizations' '--with-lto'", "/opt/python", True),
        ("'--enable-shared'", "/opt/python", False),
        ("'--enable-shared'", "/usr", True),
        ("'--enable-shared'", "/usr/local", False),
    ],
)
def test_optimized_builds_are_recognized(arguments: str, prefix: str, is_optimized_build: bool) -> None:
    assert is_optimized(arguments, "linux", prefix) == is_optimized_build


@pytest.mark.parametrize("is_optimized_build", [True, False])
def test_build_is_reported(is_optimized_build: bool) -> None:
    (check,) = check_python(is_optimized_build)
    assert check.status == "ok" and ("not built with" in check.detail) != is_optimized_build
