"""A project's aggregates for a program that uses them: found by their commands, or by the type of an event."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli import registry
from cqrs_cli.client.erasing import require_personal
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.reserved import ReservedCommand, reserved_command
from cqrs_cli.core.sealed_events import event_marks
from cqrs_cli.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.keys.opener import EventOpener
    from cqrs_cli.settings.settings import Settings


class ProjectAggregates:
    """The aggregates of a project, each loaded when it is first needed."""

    def __init__(self, settings: "Settings") -> None:
        self._package, self._root = settings.aggregates, settings.root
        self.payloads = settings.payloads()
        self._settings = settings
        self._openers: dict[str, EventOpener] = {}
        self._loaded: dict[str, Aggregate] = {}
        self._types: dict[type, list[tuple[Aggregate, str]]] = {}

    def aggregate(self, name: str) -> Aggregate:
        """The aggregate of that name; raises `UsageError` naming those that exist."""
        found = self._loaded.get(name)
        if found is None:
            found = self._loaded[name] = registry.load(name, self._package, self._root)
        return found

    def opener(self, aggregate: Aggregate, events: str) -> "EventOpener":
        """The opener of the aggregate's events in this topic; the same one each time: it has read the keys."""
        found = self._openers.get(events)
        if found is None:
            found = self._openers[events] = self._made_opener(aggregate, events)
        return found

    def _made_opener(self, aggregate: Aggregate, events: str) -> "EventOpener":
        from cqrs_cli.kafka.keys_log import event_opener
        from cqrs_cli.kafka.topics.topics import Topics
        from cqrs_cli.keys.opener import EventOpener

        marks = event_marks(aggregate)
        if marks is None or self._settings.keys() is None:
            return EventOpener(events, marks)
        connection = project_connection(self._settings)
        topics = Topics(aggregate.name, events.removesuffix(f"{aggregate.name}.events"))
        return event_opener(connection, connection.keys, topics, marks)

    def of_command(self, command: Command, name: str | None) -> tuple[Aggregate, str]:
        """The aggregate that decides the command, the one called `name` if it is given, and the command's wire type.

        Raises `UsageError` if no aggregate takes it, or several do and none is named.
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
        """The aggregate called `name`; raises `UsageError` if it does not take this reserved command."""
        if name is None:
            whose = "every aggregate with personal fields" if reserved.erases else "every aggregate"
            raise UsageError(f"{reserved.cls.__name__} is a command of {whose}", "say which: aggregate=…")
        aggregate = self.aggregate(name)
        if reserved.erases:
            require_personal(aggregate)
        return aggregate

    def _search(self, kind: type) -> list[tuple[Aggregate, str]]:
        """Looks where the class was defined first, so that a broken neighbour disturbs nobody; then everywhere."""
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
    """The aggregates of the project that `folder` is in, as `cqrs` finds it there."""
    from cqrs_cli.settings.settings import load_settings

    return ProjectAggregates(load_settings({}, folder))


def project_connection(settings: "Settings") -> "Connection":
    """The configured broker, or the embedded one if it runs; raises `UnavailableError` if there is neither."""
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
    connection.check()
    return connection
