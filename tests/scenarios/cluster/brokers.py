"""The three brokers of `compose/`, and the faults that tests inject into them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import docker
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from testcontainers.compose import DockerCompose

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.connection.librdkafka_log import LIBRDKAFKA_LOG
from cqrs_cli.kafka.readers import bounds
from tests.support import ROOT
from tests.support.absent_broker import free_ports
from tests.support.containers import find_engine, require_image
from tests.support.waiting import eventually

COMPOSE = ROOT / "compose"
NODES = (1, 2, 3)

#: The networks of compose.yaml: brokers use the first between each other, and clients use the second.
REPLICATION, CLIENTS = "replication", "clients"
ALL_NETWORKS = (CLIENTS, REPLICATION)  # in this order: the first network gets the port for clients

#: Seconds for three delays in a row: a request times out, a hung call ends its task, and the task is submitted again.
RECOVERY_TIMEOUT = 180.0


class Brokers:
    """Nodes 1 to 3. `heal` undoes every fault."""

    def __init__(self, engine: docker.DockerClient, compose: DockerCompose, ports: Mapping[int, int]) -> None:
        self.servers = {node: f"127.0.0.1:{port}" for node, port in ports.items()}
        self.connection = Connection(",".join(self.servers.values()))
        containers = {container.Service: container for container in compose.get_containers()}
        self._project = containers["kafka1"].Project
        self._containers = {node: engine.containers.get(containers[f"kafka{node}"].ID) for node in NODES}
        self._engine = engine

    def kill(self, *nodes: int) -> None:
        """Kill brokers, as a power loss of their machines does."""
        for node in nodes:
            self._containers[node].kill()

    def start(self, *nodes: int) -> None:
        """Start brokers again with their old disks."""
        for node in nodes:
            self._containers[node].start()

    def pause(self, node: int) -> None:
        """Stop a broker's processes while its connections stay open."""
        self._containers[node].pause()

    def unpause(self, node: int) -> None:
        """Let a paused broker continue."""
        self._containers[node].unpause()

    def cut_off(self, node: int, *networks: str) -> None:
        """Cut a broker off from the other brokers (`REPLICATION`) or from all networks.

        Cutting it off from clients alone is not possible: its port would change.
        """
        for network in networks:
            self._network(network).disconnect(self._containers[node])

    def rejoin(self, node: int, *networks: str) -> None:
        """Undo `cut_off`. The broker may get another address."""
        for network in networks:
            self._network(network).connect(self._containers[node], aliases=[f"kafka{node}.{network}"])

    def heal(self) -> None:
        """Undo all faults: all brokers run and reach each other."""
        for node, container in self._containers.items():
            container.reload()
            if container.status == "paused":
                container.unpause()
            for network in ALL_NETWORKS:
                if self._network(network).name not in container.attrs["NetworkSettings"]["Networks"]:
                    self.rejoin(node, network)
            container.start()
        eventually(self.all_in_sync, RECOVERY_TIMEOUT)

    def all_in_sync(self) -> bool:
        """True if all three brokers serve and every replica is in sync."""
        try:
            with Admin(self.connection) as admin:
                broker_count = admin.broker_count()
            topics = self._topics()
        except (UnavailableError, KafkaException):
            return False
        partitions = [partition for topic in topics.values() for partition in topic.partitions.values()]
        return broker_count == len(NODES) and all(
            len(partition.isrs) == len(partition.replicas) for partition in partitions
        )

    def leader(self, topic: str, partition: int, asked_node: int | None = None) -> int:
        """Return the node that leads a partition; -1 if the partition has no leader."""
        return int(self._topics(asked_node)[topic].partitions[partition].leader)

    def end_offsets_on(self, node: int, topic: str) -> dict[int, int]:
        """Return the ends of the partitions that a node leads, as this node reports them."""
        led_partitions = [
            number
            for number, partition in self._topics()[topic].partitions.items()
            if partition.leader == node
        ]
        ends = bounds(Connection(self.servers[node]), topic, led_partitions, "read_uncommitted")
        return {partition: end for partition, (_, end) in ends.items()}

    def group_coordinator(self, group: str) -> int:
        """Return the node that stores a group's offsets."""
        return self._leader_for_name("__consumer_offsets", group)

    def transaction_coordinator(self, transactional_id: str) -> int:
        """Return the node that stores the state of a producer's transactions."""
        return self._leader_for_name("__transaction_state", transactional_id)

    def _leader_for_name(self, topic: str, name: str) -> int:
        """Return the leader of the internal topic's partition for a name.

        The partition is the hash of the name by Java's `String.hashCode`, modulo the partition count.
        """
        hash_code = 0
        for letter in name:
            hash_code = (31 * hash_code + ord(letter)) % 2**32
        return self.leader(topic, min(hash_code, 2**32 - hash_code) % len(self._topics()[topic].partitions))

    def _topics(self, asked_node: int | None = None) -> Mapping[str, Any]:
        connection = self.connection if asked_node is None else Connection(self.servers[asked_node])
        return AdminClient(connection.librdkafka(), logger=LIBRDKAFKA_LOG).list_topics(timeout=10).topics

    def _network(self, name: str) -> Any:
        return self._engine.networks.get(f"{self._project}_{name}")


@contextmanager
def three_brokers(folder: Path) -> Iterator[Brokers]:
    """Start the brokers of `compose/` on free ports, and remove them in the end.

    Skips the test without a container engine.
    """
    with ExitStack() as stack:
        engine = stack.enter_context(closing(find_engine()))
        require_image(engine, os.environ.get("KAFKA_IMAGE", "apache/kafka:4.1.0"))
        ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))
        settings = {f"KAFKA_PORT_{node}": str(port) for node, port in ports.items()}
        settings["COMPOSE_PROJECT_NAME"] = f"cqrs-test-{os.getpid()}"
        file = folder / "compose.env"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        compose = stack.enter_context(DockerCompose(COMPOSE, "compose.yaml", env_file=str(file)))
        brokers = Brokers(engine, compose, ports)
        eventually(brokers.all_in_sync, RECOVERY_TIMEOUT)
        yield brokers
