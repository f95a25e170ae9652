"""Changes of a topic's settings, as another program makes them."""

from collections.abc import Mapping

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # they are its public names
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.cluster import Cluster
from tests.support.waiting import eventually


def configure_topic(connection: Cluster, topic: str, configs: Mapping[str, str]) -> None:
    """Change settings as kafka-configs.sh does, and wait until the broker shows them."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    client = AdminClient(connection.librdkafka())
    for future in client.incremental_alter_configs([resource]).values():
        future.result(10)
    with Admin(connection) as admin:
        eventually(lambda: admin.describe([topic])[topic].configs.items() >= configs.items())
