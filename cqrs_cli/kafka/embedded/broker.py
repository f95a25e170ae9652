"""The embedded Kafka of a project: one real broker in KRaft mode, on loopback, with its data in `<root>/.cqrs/kafka`.

The broker outlives the command that started it. Later commands find it through its state file, and check that the state
is still true: the process has the recorded start time, the folder is not a copy, and the server on the port has the
recorded cluster id. A file lock lets only one command at a time start or stop the broker.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.embedded import files, jars, login
from cqrs_cli.kafka.embedded import process as broker_process
from cqrs_cli.kafka.embedded.files import HOST, BrokerState
from cqrs_cli.kafka.embedded.jars import Report
from cqrs_cli.kafka.embedded.release import EMBEDDED, KafkaRelease
from cqrs_cli.system import lock, process
from cqrs_cli.system.java import find_java

#: Timeout in seconds for a broker to close its logs before it is killed.
STOP_GRACE = 30.0

#: The maximal number of attempts to start the broker. Another attempt is made if another program takes the chosen
#: ports.
_MAX_STARTS = 3


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker."""

    bootstrap_server: str
    pid: int
    version: str  # Kafka's version, such as `4.4.0`
    cluster_id: str
    data: Path  # folder of the broker's data
    log: Path  # file with the broker's log messages
    started: bool = False  # True if the call that returned this object has started the broker
    client_properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # the login of clients
    command_config: Path | None = None  # the file with `client_properties`


def start_broker(
    root: Path,
    report: Report = lambda _: None,
    progress: Report | None = None,
    release: KafkaRelease = EMBEDDED,
    short_lived: bool = False,
    require_login: bool = True,
) -> Broker:
    """Return the project's running broker; start it if necessary.

    `report`, `progress`: receive messages about the one-time download, as in `jars.ensure_jars`. `short_lived`: see
    `process.spawn_broker`. Only tests and benchmarks set `require_login` to False. Raises `UnavailableError` without
    Java, or if the broker does not start (the error contains the path of the log), and `ConfigurationError` if a folder
    cannot be written.
    """
    running_broker = broker_status(root)
    if running_broker is not None:
        return running_broker
    java = find_java()
    jars_folder = jars.ensure_jars(report, progress, release=release)
    folder = files.broker_folder(root)
    with _broker_lock(folder, report):
        state = files.read_state(folder)
        if state is not None and broker_process.is_running(folder, state):
            broker_process.wait_until_ready(folder, state, files.log_size(folder))
            return _broker(folder, state)
        report("starting the embedded Kafka")
        return _broker(
            folder,
            _start(java, jars_folder, folder, state, release, short_lived, require_login),
            started=True,
        )


def stop_broker(root: Path, on_stop: Callable[[], object] = lambda: None) -> bool:
    """Stop the project's broker and wait until it is gone; return False if it was not running. Its data stay.

    `on_stop` is called before a running broker is stopped.
    """
    folder = files.broker_folder(root)
    if files.read_state(folder) is None:
        return False
    with _broker_lock(folder, lambda _: None):
        state = files.read_state(folder)
        if state is None or not broker_process.is_running(folder, state):
            return False
        on_stop()
        process.terminate(state.pid, state.born, STOP_GRACE)
        return True


def broker_status(root: Path) -> Broker | None:
    """Return the project's broker if it runs and answers, else None. Starts nothing, and changes nothing."""
    folder = files.broker_folder(root)
    state = files.read_state(folder)
    if (
        state is None
        or not broker_process.is_running(folder, state)
        or not broker_process.is_ready(folder, state)
    ):
        return None
    return _broker(folder, state)


def _start(
    java: Path,
    jars_folder: Path,
    folder: Path,
    previous_state: BrokerState | None,
    release: KafkaRelease,
    short_lived: bool,
    require_login: bool,
) -> BrokerState:
    """Start the broker. If the folder has no password, create a password and the user.

    Existing data without a user come from an earlier version. The broker is then first started without a login, to
    create the user in these data.
    """
    run_broker = partial(_spawn_and_wait, java, jars_folder, folder, previous_state, release, short_lived)
    password = login.read_password(folder)
    if require_login and password is None:
        password = login.new_password()
        if (existing_id := files.cluster_id(folder)) is not None:
            state = run_broker(existing_id, None)
            try:
                login.create_user(f"{HOST}:{state.port}", password)
            finally:
                process.terminate(state.pid, state.born, STOP_GRACE)
    cluster_id = broker_process.format_data(java, jars_folder, folder, password)
    return run_broker(cluster_id, password if require_login else None)


def _spawn_and_wait(
    java: Path,
    jars_folder: Path,
    folder: Path,
    previous_state: BrokerState | None,
    release: KafkaRelease,
    short_lived: bool,
    cluster_id: str,
    password: str | None,
) -> BrokerState:
    """Start the broker and wait until it is ready."""
    for tries_left in reversed(range(_MAX_STARTS)):
        log_start = files.log_size(folder)
        ports = broker_process.choose_ports(previous_state)
        state = broker_process.spawn_broker(
            java,
            jars_folder,
            folder,
            cluster_id,
            ports,
            release=release,
            short_lived=short_lived,
            password=password,
        )
        try:
            broker_process.wait_until_ready(folder, state, log_start)
            break
        except broker_process.PortTakenError:
            if not tries_left:
                raise
        except BaseException:  # also on Ctrl-C: a broker without a waiting caller must not keep running
            process.terminate(state.pid, state.born, STOP_GRACE)
            raise
    return state


@contextmanager
def _broker_lock(folder: Path, report: Report) -> Iterator[None]:
    """Lock the folder, so that no other command starts or stops the broker; raises `ConfigurationError` on failure."""
    timeout = broker_process.START_TIMEOUT + STOP_GRACE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # data and log contain users' records
        with lock.file_lock(
            folder / files.LOCK_FILE,
            lambda: report("another command is starting or stopping Kafka; waiting"),
            timeout,
        ):
            yield
    except OSError as error:
        hint = "make it writable and free disk space, or name a broker with -b"
        raise ConfigurationError(f"cannot write {folder}: {error.strerror or error}", hint) from error


def _broker(folder: Path, state: BrokerState, started: bool = False) -> Broker:
    return Broker(
        bootstrap_server=f"{HOST}:{state.port}",
        pid=state.pid,
        version=state.version,
        cluster_id=state.cluster_id,
        data=folder / files.DATA_FOLDER,
        log=folder / files.LOG_FILE,
        started=started,
        client_properties=login.client_properties(login.require_password(folder)) if state.has_login else {},
        command_config=folder / login.CLIENT_FILE if state.has_login else None,
    )
