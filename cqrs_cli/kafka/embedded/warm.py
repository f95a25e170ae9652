"""Writes the broker's class data archive, for `cqrs warm`: a temporary broker loads the classes of a usual run."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.embedded import jars, login, process
from cqrs_cli.kafka.embedded.jars import Report
from cqrs_cli.system.class_archive import WRITE_TIMEOUT
from cqrs_cli.system.process import terminate

_TOPIC = "warm"


def warm_broker(java: Path, report: Report, progress: Report | None = None) -> Path:
    """Write the class data archive of the embedded Kafka for the JVM `java`, if it is missing; return its path.

    `report`, `progress`: receive messages about the one-time download, as in `jars.ensure_jars`. Raises the errors of
    `jars.ensure_jars`, of `ClassArchive.write` and of a broker's start.
    """
    jars_folder = jars.ensure_jars(report, progress)
    return process.broker_archive(java, jars_folder).write(partial(_run_broker, java, jars_folder), report)


def _run_broker(java: Path, jars_folder: Path, options: Sequence[str]) -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        password = login.new_password()
        cluster_id = process.format_data(java, jars_folder, folder, password)
        ports = process.choose_ports(None)
        state = process.spawn_broker(
            java, jars_folder, folder, cluster_id, ports, options=options, password=password
        )
        try:
            process.wait_until_ready(folder, state, log_start=0)
            _load_classes(Cluster(f"127.0.0.1:{state.port}", login.client_properties(password)))
        finally:
            terminate(state.pid, state.born, WRITE_TIMEOUT)


def _load_classes(cluster: Cluster) -> None:
    """Make the broker load the classes that it needs for a run, by using topics, an idempotent producer, transactions,
    a consumer group and a reader.
    """
    from confluent_kafka import TopicPartition

    from cqrs_cli.kafka.admin.topics import Admin
    from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, consumer, producer
    from cqrs_cli.kafka.leaders import assign

    with Admin(cluster) as admin:
        admin.create(_TOPIC, partitions=1, replication=1, configs={"cleanup.policy": "compact"})
        admin.describe([_TOPIC])
    idempotent = producer(cluster)
    idempotent.produce(_TOPIC, b"idempotent", b"key")
    idempotent.flush(REQUEST_TIMEOUT)
    reader = consumer(cluster, group=_TOPIC)
    transactional = producer(cluster, transactional_id=_TOPIC)
    transactional.init_transactions(REQUEST_TIMEOUT)
    transactional.begin_transaction()
    transactional.produce(_TOPIC, b"transactional", b"key")
    position = TopicPartition(_TOPIC, 0, 1)
    transactional.send_offsets_to_transaction([position], reader.consumer_group_metadata(), REQUEST_TIMEOUT)
    transactional.commit_transaction(REQUEST_TIMEOUT)
    assign(reader, [TopicPartition(_TOPIC, 0, 0)])
    reader.consume(2, REQUEST_TIMEOUT)
    reader.committed([position], REQUEST_TIMEOUT)
    reader.close()
