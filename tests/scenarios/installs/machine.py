"""A user's machine on which nothing was ever installed: an empty HOME, no Java, and the wheel to install."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support import ROOT

#: Of these an installation must not learn where the tests' own one is. Where caches and mirrors are may be said.
OURS = ("CQRS_", "PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV", "XDG_", "PIPX_", "UV_", "JAVA_HOME")
KEPT = {"CQRS_CACHE_DIR", "CQRS_IVY_SETTINGS"}

#: Seconds for one call. PySpark, 450 MB, is unpacked in it.
PATIENCE = 900


@dataclass(frozen=True)
class Machine:
    """`home` is the user's, `folder` the current one; `wheels` has the wheel of this project, and PySpark's."""

    home: Path
    folder: Path
    wheels: Path
    constraints: Path

    @property
    def wheel(self) -> Path:
        """This project's."""
        (wheel,) = self.wheels.glob("cqrs_cli-*.whl")
        return wheel

    @property
    def environment(self) -> dict[str, str]:
        """A user's, without Java. Everything is installed at the versions of `constraints`."""
        theirs = {
            name: value for name, value in os.environ.items() if name in KEPT or not name.startswith(OURS)
        }
        constraints, wheels = str(self.constraints), str(self.wheels)
        return theirs | {
            "HOME": str(self.home),
            "PATH": f"{self.home}/.local/bin:{_without_java(self.home)}",
            "PIP_CONSTRAINT": constraints,
            "PIP_FIND_LINKS": wheels,
            "PIP_NO_COMPILE": "1",  # all of it, where a few commands need little; uv leaves it, too
            "UV_CONSTRAINT": constraints,
            "UV_FIND_LINKS": wheels,
            "UV_PYTHON": sys.executable,
            "PIPX_DEFAULT_PYTHON": sys.executable,
        }

    def inside(self, folder: str) -> "Machine":
        """The same one, in a folder of its folder."""
        return replace(self, folder=self.folder / folder)

    def run(self, *command: str) -> str:
        """The output of a command, which must succeed. Nothing of it outlives a call that hangs."""
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
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
        if process.returncode:
            pytest.fail(f"{' '.join(command)}: {out}{err}", pytrace=False)
        return out


def new_machine(folder: Path, wheels: Path) -> Machine:
    """A machine without anything, in a folder."""
    for name in ("home", "empty"):
        (folder / name).mkdir()
    return Machine(folder / "home", folder / "empty", wheels, ROOT / "constraints.txt")


def _without_java(home: Path) -> Path:
    """A folder with every program of the machine's path but Java's."""
    folder = home / ".programs"
    if not folder.exists():
        folder.mkdir()
        for place in os.environ["PATH"].split(os.pathsep):
            for program in Path(place).iterdir() if Path(place).is_dir() else ():
                if not program.name.startswith(("java", "cqrs")) and not (folder / program.name).is_symlink():
                    (folder / program.name).symlink_to(program)
    assert shutil.which("java", path=str(folder)) is None
    return folder
