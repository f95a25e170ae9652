"""The files in the embedded broker's folder: its settings, its state and its log."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from cqrs_cli.storage.private import atomic_write

#: The broker listens on loopback only.
HOST = "127.0.0.1"

#: Every path in the broker's settings is relative to the broker's folder, which is its working directory. So the path
#: of the project may contain a comma, blank or backslash, and the project may be moved while the broker is down.
DATA_FOLDER = "data"
LOG_FILE = "kafka.log"
SERVER_FILE = "server.properties"
LOGGING_FILE = "log4j2.properties"
STATE_FILE = "state.json"
LOCK_FILE = "lock"
FORMAT_FILE = "format.arguments"

#: The broker's settings:
#: - The internal topics have few partitions, because the broker opens each partition when it starts.
#: - A killed broker can rejoin only after its session has timed out: here after 10 s.
#: - Timed-out transactions are aborted every second instead of every ten seconds, because they block readers.
#: - With Kafka's default numbers of threads, 3 and 8, a small transaction cost 15 % more processor time.
#: - Records may have any timestamp, also in topics that were created before `init` set `topics.TIMESTAMP_LIMITS`.
_SETTINGS = """\
process.roles=broker,controller
node.id=1
listeners=CLIENT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=CLIENT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller_port}
inter.broker.listener.name=CLIENT
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
num.network.threads=1
num.io.threads=2
auto.create.topics.enable=false
log.message.timestamp.before.max.ms=9223372036854775807
log.message.timestamp.after.max.ms=9223372036854775807
default.replication.factor=1
min.insync.replicas=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=10000
broker.heartbeat.interval.ms=1000
log.cleaner.dedupe.buffer.size=16777216
"""

#: The settings of the broker's log: three files of at most 10 MB. Without the last four lines, Kafka would log hundreds
#: of settings at each start.
_LOGGING = f"""\
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName={LOG_FILE}
appender.file.filePattern={LOG_FILE}.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d{{yyyy-MM-dd HH:mm:ss,SSS}} %-5p %c{{1}} %m%n
appender.file.policies.type=Policies
appender.file.policies.size.type=SizeBasedTriggeringPolicy
appender.file.policies.size.size=10MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=2
rootLogger.level=info
rootLogger.appenderRef.file.ref=file
logger.settings.name=org.apache.kafka.common.config
logger.settings.level=warn
logger.settings_of_metrics.name=org.apache.kafka.common.metrics
logger.settings_of_metrics.level=warn
"""


@dataclass(frozen=True, slots=True)
class BrokerState:
    """The content of the state file: the broker that was last started in a folder. It may have stopped since."""

    pid: int
    born: str  # start time of the process, to recognise another process with the same id
    place: str  # `folder_identity` of the folder in which the broker was started
    port: int
    controller_port: int
    cluster_id: str
    version: str
    has_login: bool = False  # missing in the file of a broker that an earlier version started


def broker_folder(root: Path) -> Path:
    """Return the broker's folder in a project."""
    return root / ".cqrs" / "kafka"


def folder_identity(folder: Path) -> str:
    """Return the identity of a folder, `device:inode`. A moved folder keeps it; a copy has another identity."""
    status = folder.stat()
    return f"{status.st_dev}:{status.st_ino}"


def read_state(folder: Path) -> BrokerState | None:
    """Return the state; None if no broker was ever started here, or the file is invalid."""
    try:
        return BrokerState(**json.loads((folder / STATE_FILE).read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def write_state(folder: Path, state: BrokerState) -> None:
    """Write the state file atomically: a reader never sees an incomplete file."""
    new_file = folder / f"{STATE_FILE}.new"
    new_file.write_text(json.dumps(asdict(state), indent=1) + "\n")
    new_file.replace(folder / STATE_FILE)


def write_settings(
    folder: Path, port: int, controller_port: int, data: str = DATA_FOLDER, extra: str = ""
) -> None:
    """Write the files with the broker's settings and logging settings. `data`: the data folder. `extra`: lines with
    further settings, which override the default settings.
    """
    settings = _SETTINGS.format(port=port, controller_port=controller_port, data=data)
    with atomic_write(folder / SERVER_FILE) as file:  # `extra` may contain a password
        file.write((settings + extra).encode())
    (folder / LOGGING_FILE).write_text(_LOGGING)


def cluster_id(folder: Path) -> str | None:
    """Return the cluster id of the formatted data; None if there is no data."""
    try:
        lines = (folder / DATA_FOLDER / "meta.properties").read_text().splitlines()
    except FileNotFoundError:
        return None
    return dict(line.split("=", 1) for line in lines if "=" in line).get("cluster.id")


def log_size(folder: Path) -> int:
    """Return the present size of the log in bytes: the `start` of a later call of `log_since`."""
    try:
        return (folder / LOG_FILE).stat().st_size
    except FileNotFoundError:
        return 0


def log_since(folder: Path, start: int) -> list[str]:
    """Return the log's lines from byte `start` on; all lines if the log was rolled over since."""
    try:
        data = (folder / LOG_FILE).read_bytes()
    except FileNotFoundError:
        return []
    return os.fsdecode(data[start if start <= len(data) else 0 :]).splitlines()
