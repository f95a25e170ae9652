"""Three brokers of the embedded Kafka on this machine, which may be killed, and a project folder that uses them."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks.environment import AGGREGATES, Environment
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.connection.librdkafka_log import LIBRDKAFKA_LOG
from cqrs_cli.kafka.embedded import files, jars, process
from cqrs_cli.kafka.embedded.files import BrokerState
from cqrs_cli.system.java import find_java
from cqrs_cli.system.process import terminate

_NODES = (1, 2, 3)

#: The differences from one embedded broker. The broker session timeout is Kafka's default, 9 s: a dead broker looks
#: alive for so long.
_EXTRA_SETTINGS = """\
node.id={node}
controller.quorum.voters={voters}
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
broker.session.timeout.ms=9000
broker.heartbeat.interval.ms=2000
"""


class Brokers:
    """The started brokers, by their node id."""

    def __init__(self, root: Path, states: dict[int, BrokerState]) -> None:
        self.root, self.states = root, states
        self.connection = Connection(",".join(f"127.0.0.1:{state.port}" for state in states.values()))
        self._admin = AdminClient(self.connection.librdkafka(), logger=LIBRDKAFKA_LOG)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the node that leads a partition, according to a live broker; -1 without a leader or an answer."""
        try:
            metadata = self._admin.list_topics(topic, timeout=1).topics[topic].partitions.get(partition)
        except KafkaException:
            return -1
        return -1 if metadata is None else int(metadata.leader)

    def end_leader(self, topic: str, signal_number: signal.Signals) -> float:
        """Send this signal to the leader of partition 0; return the seconds until the partition has another leader."""
        old_leader = self.leader(topic)
        assert old_leader in self.states, f"nobody leads {topic}"
        start = time.monotonic()
        os.kill(self.states[old_leader].pid, signal_number)
        while (leader := self.leader(topic)) in (old_leader, -1):
            assert time.monotonic() < start + 60, f"{topic} has no other leader than {leader}"
            time.sleep(0.05)
        return time.monotonic() - start


@contextmanager
def three_brokers() -> Iterator[tuple[Environment, Brokers]]:
    """Yield a new project with three new brokers, and remove them afterwards."""
    root = Path(tempfile.mkdtemp(prefix="cqrs-benchmark-"))
    states: dict[int, BrokerState] = {}
    try:
        shutil.copytree(AGGREGATES, root / "aggregates")
        _start(root, states)
        brokers = Brokers(root, states)
        (root / "cqrs.toml").write_text(f'bootstrap_server = "{brokers.connection.bootstrap_server}"\n')
        yield Environment(root, brokers.connection, states[1].pid), brokers
    finally:
        for state in states.values():
            terminate(state.pid, state.born, process.END_GRACE)
        shutil.rmtree(root, ignore_errors=True)


def _start(root: Path, states: dict[int, BrokerState]) -> None:
    java = find_java()
    library = jars.ensure_jars(lambda text: print(text, file=sys.stderr))
    cluster_id = urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
    ports = {node: process.choose_ports(None) for node in _NODES}
    voters = ",".join(f"{node}@127.0.0.1:{controller}" for node, (_, controller) in ports.items())
    folders = {node: root / f"broker-{node}" for node in _NODES}
    for node, folder in folders.items():
        folder.mkdir()
        extra = _EXTRA_SETTINGS.format(node=node, voters=voters)
        files.write_settings(folder, *ports[node], extra=extra)
        tool = [
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            cluster_id,
            "--config",
            files.SERVER_FILE,
        ]
        subprocess.run(
            [str(java), "-cp", f"{library}/*", *tool], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )
        states[node] = process.spawn_broker(java, library, folder, cluster_id, ports[node], extra)
    # No broker is ready before two brokers run.
    for node, folder in folders.items():
        process.wait_until_ready(folder, states[node], 0)
