"""Finds a project's aggregates by name, or by a command's class, for `Client` and `decode`."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli import registry
from cqrs_cli.client.erasures import require_personal
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.reserved import ReservedCommand, reserved_command
from cqrs_cli.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from cqrs_cli.codec.record_codec import RecordCodec
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.kafka.embedded.broker import Broker
    from cqrs_cli.settings.settings import Settings

#: `decode` reads the data keys again if it read them more than this number of seconds ago: its records come in any
#: order, so a record may be newer than the keys. Reading the keys for each record would be slow: a request to the
#: broker takes ten times as long as decoding an event.
_MAX_KEY_AGE = 0.1


class ProjectAggregates:
    """The aggregates of a project. Each aggregate is loaded when it is first needed."""

    def __init__(self, settings: "Settings") -> None:
        self._package, self._root = settings.aggregates, settings.root
        self.payloads = settings.payloads()
        self._settings = settings
        self._codecs: dict[str, RecordCodec] = {}  # events topic → its codec
        self._aggregates: dict[str, Aggregate] = {}  # name → loaded aggregate
        #: Command class → each aggregate that has the command, with the command's wire type.
        self._candidates_by_class: dict[type, list[tuple[Aggregate, str]]] = {}

    def aggregate(self, name: str) -> Aggregate:
        """Return the aggregate with this name; raise `UsageError` with the known names if it does not exist."""
        aggregate = self._aggregates.get(name)
        if aggregate is None:
            aggregate = self._aggregates[name] = registry.load(name, self._package, self._root)
        return aggregate

    def codec(self, aggregate: Aggregate, events_topic: str) -> "RecordCodec":
        """Return the codec of the aggregate's events in this topic; it is cached, with the data keys that it read."""
        codec = self._codecs.get(events_topic)
        if codec is None:
            codec = self._codecs[events_topic] = self._open_codec(aggregate, events_topic)
        return codec

    def _open_codec(self, aggregate: Aggregate, events_topic: str) -> "RecordCodec":
        from cqrs_cli.client.codecs import decrypting_codec
        from cqrs_cli.kafka.connection.connection import Connection
        from cqrs_cli.kafka.topics.topics import Topics

        topics = Topics(aggregate.name, events_topic.removesuffix(f"{aggregate.name}.events"))
        if not aggregate.has_personal_fields or self._settings.keys() is None:  # nothing is read from Kafka
            unconnected = Connection("", payloads=self.payloads)
            return decrypting_codec(unconnected, topics, aggregate)
        connection = project_connection(self._settings)
        return decrypting_codec(connection, topics, aggregate, max_key_age=_MAX_KEY_AGE)

    def of_command(self, command: Command, name: str | None) -> tuple[Aggregate, str]:
        """Return the aggregate that decides the command, and the command's wire type. `name`: the name of the
        aggregate; None to search all aggregates.

        Raises `UsageError` if no aggregate has this command, or if several have it and `name` is None.
        """
        command_class = type(command)
        if (reserved := reserved_command(command_class)) is not None:
            return self._aggregate_accepting(reserved, name), reserved.wire_type
        if name is not None:
            candidates = [
                (self.aggregate(name), wire_type) for wire_type in self._wire_types(name, command_class)
            ]
        elif (known_candidates := self._candidates_by_class.get(command_class)) is not None:
            candidates = known_candidates
        else:
            candidates = self._candidates_by_class[command_class] = self._search_candidates(command_class)
        if len(candidates) == 1:
            return candidates[0]
        if not candidates:
            location = f"the aggregate {name!r}" if name else f"any aggregate in {self._root / self._package}"
            raise UsageError(
                f"{command_class.__module__}.{command_class.__qualname__} is not a command of {location}",
                "import the class from the project's aggregate, and name it in the annotation of `decide`",
            )
        names = ", ".join(aggregate.name for aggregate, _ in candidates)
        raise UsageError(
            f"{command_class.__name__} is a command of {names}", "name the aggregate: aggregate=…"
        )

    def _aggregate_accepting(self, reserved: ReservedCommand, name: str | None) -> Aggregate:
        """Return the aggregate `name`; raise `UsageError` if the aggregate does not accept this reserved command."""
        if name is None:
            owners_text = "every aggregate with personal fields" if reserved.erases else "every aggregate"
            raise UsageError(
                f"{reserved.cls.__name__} is a command of {owners_text}", "name the aggregate: aggregate=…"
            )
        aggregate = self.aggregate(name)
        if reserved.erases:
            require_personal(aggregate)
        return aggregate

    def _search_candidates(self, command_class: type) -> list[tuple[Aggregate, str]]:
        """Return the aggregates that have this command, with its wire type. The module that defines the class is
        searched first, and all modules only if this fails, because another module may not load.
        """
        names = registry.names(self._package, self._root)
        module_name = command_class.__module__.removeprefix(f"{self._package}.")
        for group in ([module_name] if module_name in names else [], names):
            matches = [
                (self.aggregate(name), wire_type)
                for name in group
                for wire_type in self._wire_types(name, command_class)
            ]
            if matches:
                return matches
        return []

    def _wire_types(self, name: str, command_class: type) -> list[str]:
        return [wire_type for wire_type, cls in self.aggregate(name).commands.items() if cls is command_class]


@lru_cache(8)
def project_aggregates(folder: Path) -> ProjectAggregates:
    """Return the aggregates of the project that contains `folder`. The result is cached."""
    from cqrs_cli.settings.settings import load_settings

    return ProjectAggregates(load_settings({}, folder))


def project_connection(
    settings: "Settings", find_broker: "Callable[[Path], Broker | None] | None" = None
) -> "Connection":
    """Return the connection to the configured broker; if none is configured, to the embedded broker, with its login. No
    request is sent.

    `find_broker`: returns the embedded broker, and may start it; by default the broker must already run.

    Raises `UnavailableError` if there is no broker, `ConfigurationError` for invalid client properties.
    """
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.kafka.embedded.broker import broker_status

    properties = settings.client_properties()
    server = settings.bootstrap_server
    if server is None:
        broker = (find_broker or broker_status)(settings.root)
        if broker is None:
            raise UnavailableError(
                "no bootstrap_server is set, and the embedded Kafka does not run",
                "start it: cqrs kafka start",
            )
        server = broker.bootstrap_server
        properties |= broker.client_properties
    connection = Connection(server, properties, settings.payloads(), settings.keys())
    connection.check_properties()
    return connection
