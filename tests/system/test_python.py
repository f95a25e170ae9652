"""The Python that `make` takes of several, and what `cqrs doctor` says of it."""

import os
import subprocess
from pathlib import Path

import pytest

from cqrs_cli.doctor.machine import check_python
from cqrs_cli.system.python import is_optimized
from tests.support import ROOT


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


@pytest.mark.parametrize(
    ("pythons", "taken"),
    [
        ({"plain": (3, "plain"), "fast": (3, "fast")}, "fast"),
        ({"old": (2, "fast"), "plain": (3, "plain")}, "plain"),
        ({"bare": (3, "bare"), "plain": (3, "plain")}, "plain"),
        ({"old": (2, "fast"), "bare": (3, "bare")}, "bare"),
        ({"old": (2, "fast")}, None),
    ],
)
def test_make_takes_an_optimized_build(
    tmp_path: Path, pythons: dict[str, tuple[int, str]], taken: str | None
) -> None:
    """Of those that are new enough and can make virtual environments; where none can, it is said how one could."""
    for name, (version, build) in pythons.items():
        stand_in = tmp_path / name
        stand_in.write_text(
            f"""#!/bin/sh
case "$2" in
    *CONFIG_ARGS*) [ {version} = 3 ] && [ {build} = fast ] ;;
    *ensurepip*) [ {version} = 3 ] && [ {build} != bare ] ;;
    *version_info*) [ {version} = 3 ] ;;
    *) echo "$0 $*" >&2; exit 9 ;;
esac
"""
        )
        stand_in.chmod(0o755)
    given = " ".join(str(tmp_path / name) for name in pythons)
    done = subprocess.run(
        ["make", "setup", f"PYTHON={given}", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "MAKEFLAGS": ""},
    )
    assert done.returncode
    if taken is None:
        assert "Python 3.11 or newer is needed" in done.stderr
    elif taken == "bare":
        assert f"{tmp_path / taken} cannot make virtual environments" in done.stderr
    else:
        assert f"{tmp_path / taken} -m venv" in done.stderr
