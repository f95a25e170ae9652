"""A Spark session for every job here: it prints nothing, starts quickly and leaves nothing behind."""

import re
import signal
import socket
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cqrs_cli import failpoints
from cqrs_cli.errors import ConfigurationError, CqrsError, UnavailableError, UsageError
from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.spark_archive import DRIVER_OPTIONS, archived
from cqrs_cli.registry import source_archive
from cqrs_cli.system import java
from cqrs_cli.system.memory import ARENAS

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from cqrs_cli.settings.settings import Settings

#: The module that Spark's Python workers are forked from.
DAEMON = "cqrs_cli.jobs.engine.daemon"

#: Settings that correctness needs: a second copy of a task would fence the first, a set must iterate alike everywhere,
#: and a file in the worker's current folder must not be taken for a module.
FIXED = {
    "spark.speculation": "false",
    "spark.dynamicAllocation.enabled": "false",
    "spark.executorEnv.PYTHONHASHSEED": "0",
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}

#: Settings for a driver that schedules a handful of long tasks; `--conf` overrides them.
DEFAULTS = {
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # it writes to stderr even when piped
    "spark.sql.catalogImplementation": "in-memory",
    "spark.hadoop.fs.permissions.umask-mode": "077",  # what --out writes; Hadoop asks no umask of the process
    "spark.executorEnv.MALLOC_ARENA_MAX": f"{ARENAS}",  # an owner has a dozen threads: more cost it 60 MB
    "spark.python.daemon.module": DAEMON,
    "spark.decommission.enabled": "true",  # an executor that is drained says so, and waits for its tasks
}

#: The JVM schedules and does little else: code that is compiled fast beats code that runs fast.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

LOG_PROPERTY = "spark.cqrs.log"  # our own: the path of this session's log

#: The setting of the folder for tables. Spark makes it for any query, in the present folder unless told otherwise.
_WAREHOUSE = "spark.sql.warehouse.dir"

_LOCAL = re.compile(r"local(\[(\d+|\*)( *, *\d+)?\])?")
_MASTER_HOST = re.compile(r"spark://(\[[^]]+\]|[^:,]+):(\d+)")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@contextmanager
def session(master: str, conf: Mapping[str, str], log_file: Path, name: str) -> Iterator["SparkContext"]:
    """A Spark context on `master` (`local[N]`, `spark://…`), stopped with the block; one at a time in a process.

    `conf` are the user's own settings (`--conf`). Whatever Spark says goes to `log_file`. The web UI is off unless
    `spark.ui.enabled` is true; for local masters it and everything else listens on loopback only. SIGINT stays
    with the caller. Raises `UnavailableError` when Java or the master is missing, `ConfigurationError` for a master
    or setting that Spark refuses, `UsageError` for one that would break a promise.
    """
    loopback = _is_local(master)
    settings = {**_settings(master, conf, name, loopback), LOG_PROPERTY: str(log_file)}
    _reach(master)
    chosen = java.find_java()
    settings |= archived(chosen, settings)
    with jvm.started(chosen, settings, log_file, loopback) as gateway:
        context = _context(settings, gateway, log_file)
        try:
            yield context
        finally:
            _stop(context)


@contextmanager
def project_session(
    settings: "Settings",
    job: str,
    what: str,
    conf: Mapping[str, str] | None = None,
    packages: Iterable[str] = (),
) -> Iterator["SparkContext"]:
    """A `session` of the project for a job (`run`, say) about `what`: logged under its name, and every worker can
    load the project's aggregates, and its other `packages`.
    """
    log_file = settings.root / ".cqrs" / "log" / f"{job}.log"
    name = f"cqrs {job} {what}".strip()
    with (
        TemporaryDirectory() as folder,
        session(settings.master, {_WAREHOUSE: folder, **(conf or {})}, log_file, name) as context,
    ):
        for package in (settings.aggregates, *packages):
            ship(context, source_archive(package, settings.root, Path(folder) / archive_name(package)))
        yield context


def ship(context: "SparkContext", archive: Path) -> None:
    """Put a zip of Python modules on the import path of every worker, present and future."""
    context.addPyFile(str(archive))


def archive_name(package: str) -> str:
    """The file that the aggregates' code is shipped as."""
    return f"cqrs-{package}.zip"


def code_root(package: str, root: Path) -> Path:
    """In a task: where the aggregates' package lies, the shipped archive if there is one, else `root`."""
    from pyspark import SparkFiles

    shipped = Path(SparkFiles.get(archive_name(package)))
    return shipped if shipped.exists() else root


def setting(context: "SparkContext", name: str) -> str | None:
    """A property of the session. `context.getConf()` copies all of them, with calls of the JVM for each: 15 ms."""
    return context._conf.get(name)


def gave_up(context: "SparkContext", error: Exception) -> CqrsError:
    """The error for a job that Spark ended: tasks return their own errors, so a worker has died."""
    java = getattr(error, "java_exception", None)
    message = str(java.getMessage() if java is not None else error).strip() or type(error).__name__
    return CqrsError(
        f"Spark gave up: {message.splitlines()[0][:300]}", f"see {setting(context, LOG_PROPERTY)}"
    )


def dataframes(context: "SparkContext") -> "SparkSession":
    """The entry to DataFrames; takes two seconds the first time, so only for jobs that need them."""
    from pyspark.sql import SparkSession

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's about the versions of pandas and pyarrow
        return SparkSession(context)


def _settings(master: str, conf: Mapping[str, str], name: str, loopback: bool) -> dict[str, str]:
    for key, value in FIXED.items():
        if conf.get(key, value) != value:
            raise UsageError(f"--conf {key}={conf[key]}: it must stay {value}", "leave it out")
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if loopback else {}
    # Spark makes the secret. Without one any user of the machine could send it serialized objects.
    secret = {"spark.authenticate": "true"} if _LOCAL.fullmatch(master) else {}
    return {
        "spark.master": master,
        "spark.app.name": name,
        **DEFAULTS,
        **local,
        **secret,
        **conf,
        **FIXED,
        **{f"spark.executorEnv.{name}": value for name, value in failpoints.environment().items()},
        DRIVER_OPTIONS: f"{JAVA_OPTIONS} {conf.get(DRIVER_OPTIONS, '')}".strip(),
    }


def _context(settings: Mapping[str, str], gateway: Any, log_file: Path) -> "SparkContext":
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext

    interrupt = signal.getsignal(signal.SIGINT)
    try:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        return SparkContext(conf=conf, gateway=gateway)
    except Py4JError as error:
        _forget()
        raise _refusal(str(error), settings["spark.master"], log_file) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupt)  # PySpark puts its own in the place of the caller's


def _refusal(text: str, master: str, log_file: Path) -> CqrsError:
    """The error for a Spark that did not start, with the cause from its exception."""
    causes = [
        line.strip() for line in text.splitlines() if line.startswith(": ") or line.startswith("Caused by: ")
    ]
    reason = re.sub(
        r"^(: |Caused by: )?([\w.$]+(Exception|Error): )?(\[\w+\] )?", "", causes[-1] if causes else text
    )
    if "master" in reason.lower():
        return ConfigurationError(f"Spark refuses the master {master}: {reason}", "e.g. --master 'local[*]'")
    return ConfigurationError(f"Spark does not start: {reason}", f"check --conf; see {log_file}")


def _stop(context: "SparkContext") -> None:
    """End all jobs and the application. The JVM may be gone already: then there is nothing left to end."""
    from py4j.protocol import Py4JError

    accumulators, context._accumulatorServer = context._accumulatorServer, None  # type: ignore[assignment]
    accumulators.handle_error = lambda *_: None  # type: ignore[method-assign]  # the JVM goes: no news
    # it polls: up to a second of waiting that nobody needs
    threading.Thread(target=accumulators.shutdown, daemon=True).start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            context.stop()
        except (OSError, Py4JError):
            if not jvm.is_gone(context, within=1.0):
                raise
    _forget()


def _forget() -> None:
    """PySpark keeps the gateway for the next context of the process; ours ends with its session."""
    from pyspark import SparkContext

    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None


def _is_local(master: str) -> bool:
    """True if driver and executors are on this machine alone."""
    host = _MASTER_HOST.match(master)
    return master.startswith("local") or (host is not None and host[1] in _LOOPBACK)


def _reach(master: str) -> None:
    """Fail at once when nobody answers at a standalone master, where Spark would try for a minute."""
    hosts = _MASTER_HOST.findall(master) if "," not in master else []
    for host, port in hosts:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        except OSError as error:
            raise UnavailableError(
                f"no Spark master at {master} ({error.strerror or error})",
                "start it, or use --master 'local[*]'",
            ) from error
