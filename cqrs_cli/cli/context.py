"""The context of a call: its settings, its connection to the cluster, and its output."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from cqrs_cli.cli.hints import with_flags
from cqrs_cli.cli.output import Printer
from cqrs_cli.errors import ConfigurationError, CqrsError, UsageError
from cqrs_cli.extras import require

if TYPE_CHECKING:
    from cqrs_cli.core.aggregate.aggregate import Aggregate
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.kafka.embedded.broker import Broker
    from cqrs_cli.kafka.topics.topics import Topics
    from cqrs_cli.settings.settings import Settings


class Cli(Printer):
    """One call of the command line: its settings, its connection to the cluster, and its output.

    `flags`: setting → the command line's value that replaces it, such as `{"topic_prefix": "test."}`.
    """

    def __init__(
        self,
        flags: Mapping[str, object] | None = None,
        *,
        output: Literal["text", "json"] = "text",
        quiet: bool = False,
        verbose: bool = False,
    ) -> None:
        super().__init__(output, quiet)
        self.flags = dict(flags or {})
        self.verbose = verbose

    @cached_property
    def settings(self) -> "Settings":
        """The settings from flags, environment, file and defaults; read on first use. Raises `ConfigurationError`."""
        from cqrs_cli.settings.settings import load_settings

        return load_settings(self.flags)

    def connection(self, start_broker: bool = True) -> "Connection":
        """Return the connection to the configured broker, or else to the embedded broker.

        `start_broker`: start the embedded broker if it does not run. Raises `ConfigurationError` for invalid client
        properties, before any request.
        """
        from cqrs_cli.client.project_aggregates import project_connection

        return project_connection(self.settings, (lambda _: self.broker()) if start_broker else None)

    def broker(self, short_lived: bool = False) -> "Broker":
        """Return the embedded broker, and start it if it does not run. `short_lived`: the caller soon stops the broker.

        Only the first start downloads the broker. On a terminal, a spinner shows the progress.
        """
        from cqrs_cli.kafka.embedded import broker as embedded

        broker = embedded.broker_status(self.settings.root)
        if broker is not None:
            return broker
        if self.quiet or not sys.stderr.isatty():
            return embedded.start_broker(self.settings.root, self.print_note, short_lived=short_lived)
        with self.show_spinner("starting the embedded Kafka") as show_text:
            return embedded.start_broker(self.settings.root, show_text, show_text, short_lived=short_lived)

    def aggregate(self, name: str) -> "Aggregate":
        """Return the aggregate with this name; raises `UsageError`, which lists the existing aggregates."""
        from cqrs_cli import registry
        from cqrs_cli.following.processes.load import process_names

        aggregate_names = registry.names(self.settings.aggregates, self.settings.root)
        if name not in aggregate_names and name in process_names(self.settings.root):
            raise UsageError(
                f"{name} is a process manager, not an aggregate", f"run it: cqrs run --process {name}"
            )
        aggregate = registry.load(name, self.settings.aggregates, self.settings.root)
        self.has_personal_data = self.has_personal_data or aggregate.has_personal_fields
        return aggregate

    def aggregate_names(self) -> list[str]:
        """Return the names of all aggregates of the project, sorted."""
        from cqrs_cli import registry

        return registry.names(self.settings.aggregates, self.settings.root)

    def check_aggregates(self, *names: str) -> None:
        """Raise `UsageError`, which lists the existing aggregates, if a name is unknown; no code is loaded."""
        aggregate_names = self.aggregate_names()
        for name in names:
            if name not in aggregate_names:
                self.aggregate(name)

    def selected_aggregates(self, names: Sequence[str] | None) -> dict[str, "Aggregate"]:
        """Return the aggregates with these names, or all; raises `UsageError` if the project has no aggregate."""
        names = names or self.aggregate_names()
        if not names:
            folder = self.settings.root / self.settings.aggregates.replace(".", "/")
            raise UsageError(
                f"there are no aggregates in {folder}", "create a project with an aggregate: cqrs new DIR"
            )
        return {name: self.aggregate(name) for name in names}

    def usable_aggregates(self, names: Sequence[str] | None) -> dict[str, "Aggregate"]:
        """Return aggregates as `selected_aggregates` does. Without names, leave out each aggregate whose code cannot be
        used, and print a warning for it.

        Raises the first error if no aggregate is usable.
        """
        if names:
            return self.selected_aggregates(names)
        usable, errors = dict[str, "Aggregate"](), list[ConfigurationError]()
        for name in self.aggregate_names():
            try:
                usable[name] = self.aggregate(name)
            except ConfigurationError as error:
                errors.append(error)
        if not usable:
            return self.selected_aggregates(names)
        for skipped_error in errors:
            self.print_note(f"left out: {skipped_error.message}", "warning")
        return usable

    def print_error(self, error: CqrsError, cause: BaseException | None = None) -> None:
        """Print an error. The flags that choose this call's cluster are added to the command in the hint."""
        super().print_error(type(error)(error.message, self.with_flags(error.hint), error.more), cause)

    def with_flags(self, hint: str) -> str:
        """Return the hint; the command after its colon gets the flags that choose this call's cluster and topics."""
        return with_flags(hint, self.flags)

    def topics(self, name: str) -> "Topics":
        """Return the five topics of the aggregate with this name."""
        from cqrs_cli.kafka.topics.topics import Topics

        return Topics(name, self.settings.topic_prefix)


@dataclass(frozen=True)
class Call:
    """A parsed command line: a function and its arguments. Nothing has run yet."""

    cli: Cli
    function: Callable[..., int | None]
    arguments: Mapping[str, Any]  # parameter of the function → argument
    extras: Sequence[str] = ()  # the package's extras that the function needs

    def __call__(self) -> int:
        for extra in self.extras:
            require(extra, f"cqrs {self.function.__name__.removesuffix('_command')}")
        return self.function(self.cli, **self.arguments) or 0
