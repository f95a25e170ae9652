"""A project's aggregates for `Client` and `decode`: found by a command's class, or by name."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli import registry
from cqrs_cli.client.erasures import require_personal
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.encrypted_events import personal_members
from cqrs_cli.core.reserved import ReservedCommand, reserved_command
from cqrs_cli.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from cqrs_cli.codec.record_codec import RecordCodec
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.settings.settings import Settings

#: Age in seconds from which `decode` reads the data keys again, because its records may come in any order. A request to
#: the broker takes ten times as long as decoding an event.
_MAX_KEY_AGE = 0.1


class ProjectAggregates:
    """The aggregates of a project. Each aggregate is loaded when it is first needed."""

    def __init__(self, settings: "Settings") -> None:
        self._package, self._root = settings.aggregates, settings.root
        self.payloads = settings.payloads()
        self._settings = settings
        self._codecs: dict[str, RecordCodec] = {}
        self._loaded: dict[str, Aggregate] = {}
        self._types: dict[type, list[tuple[Aggregate, str]]] = {}

    def aggregate(self, name: str) -> Aggregate:
        """Return the aggregate with this name; raise `UsageError` with the known names if it does not exist."""
        found = self._loaded.get(name)
        if found is None:
            found = self._loaded[name] = registry.load(name, self._package, self._root)
        return found

    def codec(self, aggregate: Aggregate, events: str) -> "RecordCodec":
        """Return the codec of the aggregate's events in this topic, cached with the data keys that it has read."""
        codec = self._codecs.get(events)
        if codec is None:
            codec = self._codecs[events] = self._open_codec(aggregate, events)
        return codec

    def _open_codec(self, aggregate: Aggregate, events: str) -> "RecordCodec":
        from cqrs_cli.client.codecs import decrypting_codec
        from cqrs_cli.kafka.connection.connection import Connection
        from cqrs_cli.kafka.topics.topics import Topics

        members = personal_members(aggregate)
        topics = Topics(aggregate.name, events.removesuffix(f"{aggregate.name}.events"))
        if members is None or self._settings.keys() is None:  # nothing is read from Kafka
            unconnected = Connection("", payloads=self.payloads)
            return decrypting_codec(unconnected, topics, members)
        connection = project_connection(self._settings)
        return decrypting_codec(connection, topics, members, max_key_age=_MAX_KEY_AGE)

    def of_command(self, command: Command, name: str | None) -> tuple[Aggregate, str]:
        """Return the aggregate that decides the command, and the command's wire type. `name` selects an aggregate.

        Raises `UsageError` if no aggregate has this command, or if several have it and `name` is None.
        """
        kind = type(command)
        if (reserved := reserved_command(kind)) is not None:
            return self._taker_of(reserved, name), reserved.wire
        if name is not None:
            takers = [(self.aggregate(name), wire_type) for wire_type in self._wire_types(name, kind)]
        elif (known := self._types.get(kind)) is not None:
            takers = known
        else:
            takers = self._types[kind] = self._search(kind)
        if len(takers) == 1:
            return takers[0]
        if not takers:
            where = f"the aggregate {name!r}" if name else f"any aggregate in {self._root / self._package}"
            raise UsageError(
                f"{kind.__module__}.{kind.__qualname__} is not a command of {where}",
                "import the class from the project's aggregate, and name it in the annotation of `decide`",
            )
        names = ", ".join(aggregate.name for aggregate, _ in takers)
        raise UsageError(f"{kind.__name__} is a command of {names}", "say which: aggregate=…")

    def _taker_of(self, reserved: ReservedCommand, name: str | None) -> Aggregate:
        """Return the aggregate `name`; raise `UsageError` if it does not take this reserved command."""
        if name is None:
            whose = "every aggregate with personal fields" if reserved.erases else "every aggregate"
            raise UsageError(f"{reserved.cls.__name__} is a command of {whose}", "say which: aggregate=…")
        aggregate = self.aggregate(name)
        if reserved.erases:
            require_personal(aggregate)
        return aggregate

    def _search(self, kind: type) -> list[tuple[Aggregate, str]]:
        """Search first the module that defines the class, then all modules, so that a broken aggregate does no harm."""
        names = registry.names(self._package, self._root)
        home = kind.__module__.removeprefix(f"{self._package}.")
        for group in ([home] if home in names else [], names):
            found = [
                (self.aggregate(name), taken) for name in group for taken in self._wire_types(name, kind)
            ]
            if found:
                return found
        return []

    def _wire_types(self, name: str, kind: type) -> list[str]:
        return [wire_type for wire_type, known in self.aggregate(name).commands.items() if known is kind]


@lru_cache(8)
def project_aggregates(folder: Path) -> ProjectAggregates:
    """Return the aggregates of the project that contains `folder`, found as `cqrs` finds it."""
    from cqrs_cli.settings.settings import load_settings

    return ProjectAggregates(load_settings({}, folder))


def project_connection(settings: "Settings") -> "Connection":
    """Return the connection to the configured or the embedded broker; raise `UnavailableError` if neither exists."""
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.kafka.embedded import broker as embedded

    server = settings.bootstrap_server
    if server is None:
        running = embedded.broker_status(settings.root)
        if running is None:
            raise UnavailableError(
                "no bootstrap_server is set, and the embedded Kafka does not run",
                "start it: cqrs kafka start",
            )
        server = running.bootstrap_server
    connection = Connection(server, settings.client_properties(), settings.payloads(), settings.keys())
    connection.check_properties()
    return connection
