"""Downloads the broker's jars with the Ivy of PySpark, so no other tool has to be installed."""

import importlib.util
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka.embedded import jars, trust
from cqrs_cli.kafka.embedded.release import EMBEDDED, KafkaRelease

#: Seconds without output from Ivy after which the network counts as unavailable.
SILENCE = 180.0

#: Without the provider log4j-slf4j-impl the broker would log nothing; its version is the version of Kafka's log4j. No
#: broker needs kafka-tools-api, with which tools print records. Kafka 4.4.0 depends on it all the same, and Maven
#: Central has no version of it after 4.3.1.
_MODULE = """\
<ivy-module version="2.0">
  <info organisation="cqrs" module="embedded-kafka"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{kafka}" conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="{log4j}" conf="default->default"/>
    <exclude org="org.apache.kafka" module="kafka-tools-api"/>
  </dependencies>
</ivy-module>
"""


def fetcher(java: Path, release: KafkaRelease = EMBEDDED, silence: float = SILENCE) -> jars.Fetch:
    """Return the function that fills the folder for `jars.ensure`. `silence`: timeout in seconds without output."""

    def fetch(folder: Path, at: jars.OnCount) -> None:
        work = folder / ".ivy"
        work.mkdir()
        (work / "ivy.xml").write_text(_MODULE.format(kafka=release.version, log4j=release.log4j))
        found, fetched, size, output = 0, 0, 0, [""]
        with _ivy(java, work, folder, silence) as lines:
            for line in lines:
                output.append(line.strip())
                if kilobytes := re.search(r"\((\d+)kB\)$", line.rstrip()):
                    size += int(kilobytes.group(1)) * 1024
                found += line.startswith("\tfound ")
                fetched += "[SUCCESSFUL ]" in line
                at(found, fetched, size)
        if not any(line.startswith(":: retrieving") for line in output):
            raise _failure(output, release)
        shutil.rmtree(work)  # Ivy's own copies of the jars

    return fetch


@contextmanager
def _ivy(java: Path, work: Path, target: Path, silence: float) -> Iterator[Iterator[str]]:
    """Yield Ivy's output line by line. Ivy is killed if the block is left early, or after a long silence."""
    command = [
        str(java),
        *trust.options(java, work),
        "-jar",
        str(_ivy_jar()),
        *_own_settings(),
        "-ivy",
        str(work / "ivy.xml"),
        "-confs",
        "default",
    ]
    command += ["-cache", str(work / "cache"), "-retrieve", f"{target}/[artifact]-[revision].[ext]"]
    ivy = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    with ivy:
        assert ivy.stdout is not None
        try:
            yield _watched(ivy, iter(ivy.stdout), silence)
        finally:
            ivy.kill()  # has no effect if it has exited


def _watched(ivy: subprocess.Popen[str], lines: Iterator[str], silence: float) -> Iterator[str]:
    while True:
        alarm = threading.Timer(silence, ivy.kill)
        alarm.start()
        try:
            line = next(lines, None)
        finally:
            alarm.cancel()
        if line is None:
            return
        yield line


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(place).glob("jars/ivy-*.jar")):
            return jar
    raise UnavailableError(
        "PySpark, whose Ivy fetches Apache Kafka, is not whole", "pip install --force-reinstall pyspark"
    )


def _own_settings() -> list[str]:
    """Return the option for the user's Ivy settings, which mirrors need: CQRS_IVY_SETTINGS, else `~/.ivy2`."""
    named = os.environ.get("CQRS_IVY_SETTINGS")
    if named and not Path(named).is_file():
        raise ConfigurationError(
            f"CQRS_IVY_SETTINGS names {named}, which is not a file", "correct or unset it"
        )
    path = Path(named) if named else Path.home() / ".ivy2" / "ivysettings.xml"
    return ["-settings", str(path)] if path.is_file() else []


def _failure(output: list[str], release: KafkaRelease) -> UnavailableError:
    """Return the error with the line of Ivy's output that names the reason: a network failure, else a missing jar."""
    telling = ("Server access error", "Host ", "not found", "Exception", "Error")
    reasons = [line.strip(": ") for sign in telling for line in output if sign in line]
    why = (reasons or [line for line in output if line][-1:] or ["Ivy ended without a word"])[0]
    hint = "connect to the network this once, name Ivy settings in CQRS_IVY_SETTINGS, or a broker with -b"
    return UnavailableError(f"cannot fetch Apache Kafka {release.version}: {why}", hint)
