"""The way to reach Kafka, as a value in Kafka's own (Java) words, and its translation for each client."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cqrs_cli.kafka.connection import translate
from cqrs_cli.settings.java_properties import masked


@dataclass(frozen=True, slots=True, repr=False)
class Cluster:
    """A cluster and the client properties to reach it with, by their Java names. Picklable; shows no secrets."""

    bootstrap_server: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.bootstrap_server!r}, {masked(dict(self.properties))})"

    def librdkafka(self) -> dict[str, Any]:
        """The same for confluent-kafka; raises `ConfigurationError` for what librdkafka cannot do."""
        return {"bootstrap.servers": self.bootstrap_server, **translate.librdkafka(self.properties)}

    def kafka_python(self) -> dict[str, Any]:
        """The same for kafka-python; what only librdkafka knows is left out. Raises `ConfigurationError`."""
        return {
            "bootstrap_servers": self.bootstrap_server.split(","),
            **translate.kafka_python(self.properties),
        }

    def check(self) -> None:
        """Raise `ConfigurationError` for a property or value that librdkafka does not take. Connects to nothing."""
        if self.properties:
            translate.check_properties(self.librdkafka())
