"""`cqrs doctor` reports a Python that was built without its optimizations."""

import pytest

from cqrs_cli.doctor.machine import check_python
from cqrs_cli.system.python import is_optimized


@pytest.mark.parametrize(
    ("arguments", "prefix", "optimized"),
    [
        ("'--enable-optimizations' '--with-lto'", "/opt/python", True),
        ("'--enable-shared'", "/opt/python", False),
        ("'--enable-shared'", "/usr", True),
        ("'--enable-shared'", "/usr/local", False),
    ],
)
def test_optimized_builds_are_known(arguments: str, prefix: str, optimized: bool) -> None:
    assert is_optimized(arguments, "linux", prefix) == optimized


@pytest.mark.parametrize("optimized", [True, False])
def test_build_is_told(optimized: bool) -> None:
    (check,) = check_python(optimized)
    assert check.status == "ok" and ("not built with" in check.detail) != optimized
