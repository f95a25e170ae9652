"""The address and the client properties of a cluster. The properties have the names of the Java client, and are
translated for each client library.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cqrs_cli.kafka.connection import translate
from cqrs_cli.settings.java_properties import mask_secrets


@dataclass(frozen=True, slots=True, repr=False)
class Cluster:
    """A cluster and the client properties to reach it, by their Java names. Picklable. The `repr` masks secrets."""

    bootstrap_server: str  # `HOST:PORT`, or several of them separated by commas
    properties: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.bootstrap_server!r}, {mask_secrets(dict(self.properties))})"

    def librdkafka(self) -> dict[str, Any]:
        """Return the configuration for confluent-kafka; raises `ConfigurationError` for unsupported properties."""
        return {"bootstrap.servers": self.bootstrap_server, **translate.librdkafka(self.properties)}

    def kafka_python(self) -> dict[str, Any]:
        """Return the configuration for kafka-python, without librdkafka's properties. Raises `ConfigurationError`."""
        return {
            "bootstrap_servers": self.bootstrap_server.split(","),
            **translate.kafka_python(self.properties),
        }

    def check_properties(self) -> None:
        """Raise `ConfigurationError` for a property or value that librdkafka does not accept. Makes no connection."""
        if self.properties:
            translate.check_properties(self.librdkafka())
