"""The built wheel, installed where nothing else is: users' projects live in repositories of their own."""

import json
import os
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.kafka.embedded import broker as embedded
from tests.support import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

#: Of these the installation must not learn where the tests' own one is. Where caches and mirrors are may be said.
OURS = ("CQRS_", "PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV")
KEPT = {"CQRS_CACHE_DIR", "CQRS_IVY_SETTINGS"}

#: Seconds for one call. PySpark, 450 MB, is downloaded and built in one.
PATIENCE = 900


def environment(constraints: Path) -> dict[str, str]:
    """A user's; all that pip installs and builds with is at the versions of `constraints`."""
    ours = {name: value for name, value in os.environ.items() if name in KEPT or not name.startswith(OURS)}
    # an old pip reads the first for builds, too, a new one the second
    return ours | {"PIP_CONSTRAINT": str(constraints), "PIP_BUILD_CONSTRAINT": str(constraints)}


class Installation:
    """A virtual environment, and a folder that is empty at first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "empty"
        self.folder.mkdir()
        self._bin = folder / "venv" / "bin"
        constraints = folder / "constraints.txt"
        constraints.write_bytes((ROOT / "constraints.txt").read_bytes())
        self._environment = environment(constraints)
        venv.create(folder / "venv", with_pip=True)

    def run(self, program: str, *arguments: str, at: str = ".") -> str:
        """The output of a program of the environment, which must succeed. Nothing of it outlives a call that hangs."""
        process = subprocess.Popen(
            [str(self._bin / program), *arguments],
            cwd=self.folder / at,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        assert process.returncode == 0, f"{program} {' '.join(arguments)}: {out}{err}"
        return out

    def pip(self, *arguments: str) -> None:
        """pip must succeed, and needs the network."""
        try:
            self.run("python", "-m", "pip", "--disable-pip-version-check", *arguments)
        except AssertionError as failure:
            pytest.fail(f"pip failed; is there a network? {failure}", pytrace=False)


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    """The wheel, installed; the broker of its project `shop` is stopped in the end."""
    installed = Installation(tmp_path)
    installed.pip("wheel", "--no-deps", "--wheel-dir", str(tmp_path / "dist"), str(ROOT))
    (wheel,) = (tmp_path / "dist").iterdir()
    installed.pip("install", str(wheel))
    try:
        yield installed
    finally:
        embedded.stop_broker(installed.folder / "shop")


def test_wheel_decides_in_empty_environment(installation: Installation) -> None:
    def cqrs(*arguments: str) -> str:
        return installation.run("cqrs", *arguments, at="shop")

    found = installation.run("python", "-c", "import cqrs_cli; print(cqrs_cli.__file__)")
    assert not Path(found).is_relative_to(ROOT)
    assert not Path(found).is_relative_to(sys.prefix)
    installation.run("cqrs", "new", "shop")
    cqrs("init")
    cqrs("send", "inventory", "tea", "Receive", "pieces:=10")
    cqrs("send", "inventory", "tea", "Ship", "pieces:=3", "--expect", "1")
    assert json.loads(cqrs("run", "--once", "-o", "json"))["accepted"] == 2
    outcomes = [json.loads(line) for line in cqrs("tail", "inventory", "outcomes", "-o", "json").splitlines()]
    assert [outcome["message"]["data"]["status"] for outcome in outcomes] == ["accepted", "accepted"]
    assert json.loads(cqrs("show", "inventory", "tea", "-o", "json"))["state"] == {"pieces": 7}
    assert json.loads(cqrs("kafka", "stop", "-o", "json"))["stopped"] is True
