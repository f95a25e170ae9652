"""Starts the broker's JVM and waits until it is ready."""

import base64
import os
import random
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.connection.connection_error import (
    REJECTED_LOGIN_HINT,
    ConnectionFailure,
    metadata_or_failure,
)
from cqrs_cli.kafka.embedded import files, login
from cqrs_cli.kafka.embedded.files import HOST, BrokerState
from cqrs_cli.kafka.embedded.release import EMBEDDED, KafkaRelease
from cqrs_cli.storage.private import atomic_write
from cqrs_cli.system import process
from cqrs_cli.system.class_archive import ClassArchive

#: Timeout in seconds for a start. After a kill, the broker checks the tails of all its logs before it is ready.
START_TIMEOUT = 120.0

#: Free bytes below which a disk counts as full, even if the first line of a log still fits.
FULL_BELOW = 64 << 10

#: Seconds after which a broker whose start has failed is killed.
END_GRACE = 5.0

#: Ports to choose from. They are below the range that systems use for outgoing connections: within that range, a client
#: that retries to reach a stopped broker could connect to itself, and occupy the port.
_PORTS = range(20_000, 30_000)

_LOGGING_OPTION = f"-Dlog4j2.configurationFile={files.LOGGING_FILE}"

#: The heap is large enough for one project. The parallel collector costs the least CPU per transaction (G1: 20 % more).
_JVM_OPTIONS = [
    "-Xms256m",
    "-Xmx1g",
    "-XX:+UseParallelGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:ErrorFile=jvm-error.log",
    "-Djava.awt.headless=true",
    _LOGGING_OPTION,
]

#: Options for a JVM that lives for seconds: it compiles fast, to slower code.
_SHORT_LIVED_JVM = ["-XX:TieredStopAtLevel=1"]


class PortTakenError(UnavailableError):
    """Another program took a port between its choice and the broker's start. Another attempt chooses other ports."""


def broker_archive(java: Path, jars: Path) -> ClassArchive:
    """Return the class data archive of a broker with these jars."""
    return ClassArchive(java, jars.name, jars)


def format_data(java: Path, jars: Path, folder: Path, password: str | None = None) -> str:
    """Create the data folder if it is missing, and return the cluster id. `password`: also create the user of the
    login. An interrupted call leaves no data folder.
    """
    existing_id = files.cluster_id(folder)
    if existing_id is not None:
        return existing_id
    if (folder / files.DATA_FOLDER).exists():
        problem = f"{folder / files.DATA_FOLDER} holds no meta.properties: it is damaged, or not Kafka's"
        raise ConfigurationError(
            problem, "restore the file, or remove the folder, which holds all topics of this project"
        )
    new_data = f"{files.DATA_FOLDER}.new"
    shutil.rmtree(folder / new_data, ignore_errors=True)
    files.write_settings(folder, port=_PORTS[0], controller_port=_PORTS[1], data=new_data)
    # The first byte 0 prevents a leading dash.
    new_id = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
    arguments = ["format", "--cluster-id", new_id, "--config", files.SERVER_FILE]
    arguments += [] if password is None else login.format_options(password)
    with atomic_write(folder / files.FORMAT_FILE) as file:  # other users can read a command line
        file.write("\n".join(arguments).encode())
    program = ["kafka.tools.StorageTool", f"@{files.FORMAT_FILE}"]
    options = [*broker_archive(java, jars).options, *_SHORT_LIVED_JVM, "-XX:+UseSerialGC", _LOGGING_OPTION]
    result = subprocess.run(
        _command(java, jars, options, program),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    (folder / files.FORMAT_FILE).unlink()
    if result.returncode != 0:
        raise broker_failure(folder, result.stdout.splitlines(), "Kafka could not format its data folder")
    (folder / new_data).rename(folder / files.DATA_FOLDER)
    return new_id


def spawn_broker(
    java: Path,
    jars: Path,
    folder: Path,
    cluster_id: str,
    ports: tuple[int, int],
    extra_settings: str = "",
    release: KafkaRelease = EMBEDDED,
    short_lived: bool = False,
    options: Sequence[str] | None = None,
    password: str | None = None,
) -> BrokerState:
    """Start the broker, and write its state file. The broker is not ready yet: see `wait_until_ready`.

    `ports`: (port for clients, port of the controller). `short_lived`: start with a third less processor time, but stay
    slower afterwards. `options`: JVM options in place of the options for the class data archive. `password`: the
    password of the user; the broker requires a login, and the files for clients are written.

    If the state file cannot be written, for example on a full disk, the process is killed, because no command would
    find it.
    """
    port, controller_port = ports
    if password is not None:
        extra_settings = login.broker_settings(password) + extra_settings
        login.write_client_files(folder, port, password)
    files.write_settings(folder, port, controller_port, extra=extra_settings)
    archive_options = broker_archive(java, jars).options if options is None else options
    jvm_options = [*archive_options, *_JVM_OPTIONS, *(_SHORT_LIVED_JVM if short_lived else [])]
    command = _command(java, jars, jvm_options, ["kafka.Kafka", files.SERVER_FILE])
    pid = process.spawn(command, folder, files.LOG_FILE, os.environ)
    try:
        # The start time is empty if the process is dead already; `wait_until_ready` then reports its end.
        start_time = process.start_time(pid) or ""
        identity = pid, start_time, files.folder_identity(folder), port, controller_port, cluster_id
        state = BrokerState(*identity, release.version, has_login=password is not None)
        files.write_state(folder, state)
    except BaseException:
        process.terminate(pid, process.start_time(pid) or "", END_GRACE)
        raise
    return state


def wait_until_ready(folder: Path, state: BrokerState, log_start: int) -> None:
    """Wait until the broker is ready. `log_start`: the size of its log in bytes before the start, so that only later
    lines are searched for errors. Raises `PortTakenError`, `UnavailableError`, or `ConfigurationError` for a full disk.
    """
    deadline = time.monotonic() + START_TIMEOUT
    while not is_ready(folder, state):
        if not is_running(folder, state):
            output = files.log_since(folder, log_start)
            if any("Address already in use" in line or "BindException" in line for line in output):
                raise PortTakenError("another program took the port of the embedded Kafka", "try again")
            raise broker_failure(folder, output, "the embedded Kafka ended while it started")
        if time.monotonic() > deadline:
            problem = f"the embedded Kafka (process {state.pid}) does not answer after {START_TIMEOUT:.0f} s"
            raise broker_failure(folder, files.log_since(folder, log_start), problem)
        time.sleep(0.02)


def is_running(folder: Path, state: BrokerState) -> bool:
    """True if the process that was started in this folder still runs."""
    return (
        bool(state.born)
        and files.folder_identity(folder) == state.place
        and process.start_time(state.pid) == state.born
    )


def is_ready(folder: Path, state: BrokerState) -> bool:
    """True if the broker of this state answers on its port, and has registered that port with its cluster.

    Raises `ConfigurationError` if the broker requires a login, and the file with the login is missing or wrong.
    """
    properties = login.client_properties(login.require_password(folder)) if state.has_login else {}
    answer = metadata_or_failure(Cluster(f"{HOST}:{state.port}", properties), timeout=2.0)
    if isinstance(answer, ConnectionFailure):
        if answer.hint == REJECTED_LOGIN_HINT:
            raise login.wrong_password(folder)
        return False
    is_registered = any(broker.port == state.port for broker in answer.brokers.values())
    return is_registered and answer.cluster_id == state.cluster_id


def broker_failure(folder: Path, output: list[str], problem: str) -> ConfigurationError | UnavailableError:
    """Return the error for a `problem` such as "Kafka ended", with the last error in the log and the log's path."""
    is_full = shutil.disk_usage(folder).free < FULL_BELOW  # then the log lacks the line with the reason
    if is_full or any("No space left on device" in line for line in output):
        return ConfigurationError(f"{problem}: the disk under {folder} is full", "free space, then try again")
    if any("Too many open files" in line for line in output):
        return ConfigurationError(f"{problem}: too many open files", "raise the limit: ulimit -n 4096")
    errors = [line for line in output if " ERROR " in line or " FATAL " in line or "Exception" in line]
    reason = (errors or output or ["it printed nothing"])[-1].strip()
    return UnavailableError(
        f"{problem}: {reason}", f"see {folder / files.LOG_FILE}, `cqrs kafka stop`, then try again"
    )


def choose_ports(state: BrokerState | None) -> tuple[int, int]:
    """Return two free loopback ports. `state`: prefer the ports of the last start, because clients know them."""
    if state is not None and _is_free(state.port) and _is_free(state.controller_port):
        return state.port, state.controller_port
    free_ports = (port for port in random.sample(_PORTS, len(_PORTS)) if _is_free(port))
    return next(free_ports), next(free_ports)


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        # The broker sets this option, too: a connection in TIME_WAIT does not occupy the port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
    return True


def _command(java: Path, jars: Path, options: list[str], program: list[str]) -> list[str]:
    # The jars are sorted, because a class data archive is valid for one class path only, and `glob` has no fixed order.
    return [str(java), *options, "-cp", ":".join(map(str, sorted(jars.glob("*.jar")))), *program]
