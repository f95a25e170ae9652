"""Finds the Java that runs the embedded broker and Spark."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from cqrs_cli.errors import UnavailableError

LEAST = 17  # Kafka 4 and Spark 4 both need it

#: Spark's columnar code is compiled against it; some cut-down runtimes leave it out. Kafka does without.
SPARK_MODULE = "jdk.incubator.vector"

INSTALL = (
    f"install a full Java {LEAST} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) and, where several are installed, set JAVA_HOME"
)


def find_java() -> Path:
    """The `java` to start: JAVA_HOME's when that is set (Spark then takes no other), else the one on PATH.

    Raises `UnavailableError` when there is none, it does not run, or it is older than 17.
    """
    java = _located()
    found = version(java)
    if found < LEAST:
        raise UnavailableError(f"{java} is Java {found}, {LEAST} or newer is needed", INSTALL)
    return java


def version(java: Path) -> int:
    """Its feature release: 17 for 17.0.15, 8 for 1.8.0_402. Raises `UnavailableError` if it does not run."""
    output = _run(java, "-version")
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    if match is None:
        raise UnavailableError(f"{java} does not run: {_last_line(output)}", INSTALL)
    return int(match.group(1))


def runs_spark(java: Path) -> bool:
    """True if it is complete enough for Spark. Asking takes a JVM's start (about 0.1 s)."""
    return SPARK_MODULE in _run(java, "--list-modules")


def _located() -> Path:
    home = os.environ.get("JAVA_HOME", "")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise UnavailableError(
                f"JAVA_HOME names {home}, which has no bin/java", "correct or unset JAVA_HOME"
            )
        return java
    on_path = shutil.which("java")
    if on_path is None:
        raise UnavailableError("Java is not installed", INSTALL)
    return Path(on_path)


def _run(java: Path, option: str) -> str:
    try:
        done = subprocess.run([java, option], capture_output=True, text=True, errors="replace", timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{java} does not run: {error}", INSTALL) from error
    return done.stderr + done.stdout


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it says nothing"
