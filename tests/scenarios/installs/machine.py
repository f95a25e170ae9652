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

#: Prefixes of variables that would reveal the tests' installation. The paths of caches and mirrors may stay.
HIDDEN_PREFIXES = ("CQRS_", "PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV", "XDG_", "PIPX_", "UV_", "JAVA_HOME")
KEPT_VARIABLES = {"CQRS_CACHE_DIR", "CQRS_MAVEN_MIRROR"}

#: Timeout in seconds of a command. It covers unpacking PySpark, 450 MB.
COMMAND_TIMEOUT = 900


@dataclass(frozen=True)
class Machine:
    """`home` is the user's home and `folder` the working directory.

    `wheels` has the wheels of this project and PySpark.
    """

    home: Path
    folder: Path
    wheels: Path
    constraints: Path

    @property
    def wheel(self) -> Path:
        """The wheel of this project."""
        (wheel,) = self.wheels.glob("cqrs_cli-*.whl")
        return wheel

    @property
    def environment(self) -> dict[str, str]:
        """A user's environment without Java. All packages get the versions of `constraints`."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if name in KEPT_VARIABLES or not name.startswith(HIDDEN_PREFIXES)
        }
        constraints, wheels = str(self.constraints), str(self.wheels)
        return environment | {
            "HOME": str(self.home),
            "PATH": f"{self.home}/.local/bin:{_without_java(self.home)}",
            "PIP_CONSTRAINT": constraints,
            "PIP_FIND_LINKS": wheels,
            "PIP_NO_COMPILE": "1",  # compiling all modules is slow; uv omits it, too
            "UV_CONSTRAINT": constraints,
            "UV_FIND_LINKS": wheels,
            "UV_PYTHON": sys.executable,
            "PIPX_DEFAULT_PYTHON": sys.executable,
        }

    def in_folder(self, folder: str) -> "Machine":
        """Return this machine with a subfolder as working directory."""
        return replace(self, folder=self.folder / folder)

    def run(self, *command: str) -> str:
        """Run a command, which must succeed, and return its output.

        A command that hangs is killed with all its processes.
        """
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
            out, err = process.communicate(timeout=COMMAND_TIMEOUT)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        if process.returncode:
            pytest.fail(f"{' '.join(command)}: {out}{err}", pytrace=False)
        return out


def new_machine(folder: Path, wheels: Path) -> Machine:
    """Return an empty machine in a folder."""
    for name in ("home", "empty"):
        (folder / name).mkdir()
    return Machine(folder / "home", folder / "empty", wheels, ROOT / "constraints.txt")


def _without_java(home: Path) -> Path:
    """Return a folder with every program of the machine's path except Java's and `cqrs`."""
    folder = home / ".programs"
    if not folder.exists():
        folder.mkdir()
        for directory in os.environ["PATH"].split(os.pathsep):
            for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
                if not program.name.startswith(("java", "cqrs")) and not (folder / program.name).is_symlink():
                    (folder / program.name).symlink_to(program)
    assert shutil.which("java", path=str(folder)) is None
    return folder
