"""Checks of this machine and of the project: Java, Python, Spark, folders, settings, aggregates."""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli.doctor.check import Check, fail, ok, warn
from cqrs_cli.errors import ConfigurationError, CqrsError, UnavailableError
from cqrs_cli.extras import install_command, missing_modules
from cqrs_cli.formatting import did_you_mean
from cqrs_cli.system.account import require_account

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings

#: The oldest supported Spark, as (major, minor).
MIN_SPARK = (4, 1)

#: Free bytes on the disk of the shards below which a warning is given.
MIN_FREE_BYTES = 1 << 30

#: Environment variables that are not settings.
_OTHER_VARIABLES = {"CQRS_CACHE_DIR", "CQRS_MAVEN_MIRROR"}


def check_java(is_needed: bool = True) -> Iterator[Check]:
    """Report the Java of the embedded broker and of Spark, and why it was chosen.

    `is_needed`: a missing Java is a failure, else a warning.
    """
    from cqrs_cli.system.java import choose_java, version

    try:
        java = choose_java()
    except UnavailableError as error:
        if is_needed:
            raise
        yield warn("java", f"{error.message}: the embedded Kafka needs it", error.hint)
        return
    version(java.path)  # raises an error if this Java does not run
    yield ok("java", f"Java {java.release} at {java.path}, {java.reason}")


def check_python(optimized: bool | None = None) -> Iterator[Check]:
    """Report this Python, and whether its build costs speed."""
    from cqrs_cli.system.python import is_optimized

    python_text = f"Python {platform.python_version()} at {sys.executable}"
    if is_optimized() if optimized is None else optimized:
        yield ok("python", f"{python_text}, an optimised build")
    else:
        yield ok(
            "python",
            f"{python_text}, not built with --enable-optimizations: an optimised build, such as that of Debian or "
            "python.org, needs a tenth less processor time",
        )


def check_spark(environ: Mapping[str, str] = os.environ) -> Iterator[Check]:
    """Check the installed PySpark, without the start of a JVM."""
    if missing_modules("spark"):
        hint = f"for them: {install_command('spark')}"
        yield Check("spark", "ok", "without PySpark, which run, replay and verify need", hint)
        return
    try:
        import pyspark
    except ImportError as error:
        raise UnavailableError(f"pyspark cannot be imported: {error}", install_command("spark")) from None
    folder = Path(str(pyspark.__file__)).parent
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < MIN_SPARK:
        minimum = ".".join(map(str, MIN_SPARK))
        raise UnavailableError(f"Spark {pyspark.__version__} is too old", f"pip install 'pyspark>={minimum}'")
    require_account()
    home = environ.get("SPARK_HOME", "")
    if home and Path(home).resolve() != folder.resolve():
        yield warn(
            "spark",
            f"Spark {pyspark.__version__}, but SPARK_HOME is {home}",
            f"unset SPARK_HOME, or set it to {folder}",
        )
    else:
        yield ok("spark", f"Spark {pyspark.__version__} at {folder}")


def check_settings(settings: "Settings") -> Iterator[Check]:
    """Check the settings and the client properties that they name."""
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.settings.settings import origins

    Connection(settings.bootstrap_server or "127.0.0.1:9092", settings.client_properties()).check_properties()
    origin_names = sorted({origin for origin in origins(settings).values() if origin != "default"})
    yield ok(
        "settings",
        f"root {settings.root}; " + (f"from {', '.join(origin_names)}" if origin_names else "all defaults"),
    )
    known_variables = {f"CQRS_{name.upper()}" for name in origins(settings)} | _OTHER_VARIABLES
    for name in sorted(os.environ):
        if name.startswith("CQRS_") and name not in known_variables:
            hint = did_you_mean(name, known_variables) or "unset it"
            yield warn("settings", f"the environment variable {name} is not a setting", hint)


def check_state(folder: Path) -> Iterator[Check]:
    """Check that shards can be stored in `folder`, which need not exist yet."""
    from cqrs_cli.state.errors import reject_network_file_system

    reject_network_file_system(folder)
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(b"x")
    except OSError as error:
        raise ConfigurationError(
            f"the state folder {folder} cannot be written ({error.strerror})",
            "choose another folder with --state-dir or CQRS_STATE_DIR",
        ) from None
    free = shutil.disk_usage(existing).free
    if free < MIN_FREE_BYTES:
        yield warn("state", f"{folder}: {free >> 20} MiB free", "free disk space, or set CQRS_STATE_DIR")
    else:
        yield ok("state", f"{folder}: writable, local, {free >> 30} GiB free")


def check_memory(settings: "Settings") -> Iterator[Check]:
    """Report the memory limit of the in-memory store."""
    limit = settings.store_limit.human_readable(separator=" ")
    yield ok(
        "state", f"in memory, {limit} at most in each process of a run; rebuilt from the log at each start"
    )


def check_limits(settings: "Settings") -> Iterator[Check]:
    """Check that this machine's process limits allow the owners of the configured number of partitions."""
    from cqrs_cli import registry
    from cqrs_cli.system import limits

    partitions = len(registry.names(settings.aggregates, settings.root)) * settings.partitions
    tasks = os.cpu_count() or 1
    needs, allowance = limits.owner_needs(-(-partitions // tasks)), limits.hard_limits()
    error = allowance.shortage(needs, f"one of {tasks} tasks of cqrs run with {partitions} partitions")
    if error is not None:
        yield warn("limits", error.message, error.hint)
    else:
        files = "any number of" if allowance.descriptors is None else f"{allowance.descriptors:,}"
        required_text = (
            f"one of {tasks} tasks of cqrs run with {partitions} partitions needs {needs.descriptors:,}"
        )
        space = "" if allowance.bytes is None else f", in {allowance.bytes >> 30:,} GiB of address space"
        yield ok("limits", f"a process may open {files} files{space}; {required_text}")


def check_aggregates(settings: "Settings") -> Iterator[Check]:
    """Check that the project's aggregates can be loaded."""
    from cqrs_cli import registry

    names = registry.names(settings.aggregates, settings.root)
    if not names:
        folder = settings.root / settings.aggregates.replace(".", "/")
        yield warn(
            "aggregates", f"no aggregates in {folder}", "create a project with an aggregate: cqrs new DIR"
        )
    failures: list[Check] = []
    for name in names:
        try:
            registry.load(name, settings.aggregates, settings.root)
        except CqrsError as error:
            failures.append(fail("aggregates", error))
    yield from failures
    if names and not failures:
        yield ok("aggregates", ", ".join(names))
