"""What every command shares: its common options, and the `Cli` it reads settings from and speaks through."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer
from typer.models import OptionInfo

from cqrs_cli.cli.app import PANELS, version_option
from cqrs_cli.cli.app import app as root
from cqrs_cli.cli.hints import with_flags
from cqrs_cli.cli.output import Output
from cqrs_cli.errors import CqrsError, UnavailableError, UsageError

if TYPE_CHECKING:
    from cqrs_cli.core.aggregate.aggregate import Aggregate
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.kafka.embedded.broker import Broker
    from cqrs_cli.kafka.topics.topics import Topics
    from cqrs_cli.settings.settings import Settings

#: A command: `Cli` first, then its own parameters; the value is the exit status, None for 0.
Function = TypeVar("Function", bound=Callable[..., int | None])

COMMON = "Common options"
BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="Kafka; unset: the embedded broker.",
        rich_help_panel=COMMON,
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="Java properties of the Kafka clients: TLS, SASL.",
        rich_help_panel=COMMON,
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "-X", metavar="KEY=VALUE", help="One Kafka client property; repeatable.", rich_help_panel=COMMON
    ),
]
TopicPrefix = Annotated[
    str | None,
    typer.Option(
        "--topic-prefix", metavar="TEXT", help="Put before every topic's name.", rich_help_panel=COMMON
    ),
]
OutputFormat = Annotated[
    Literal["text", "json"],
    typer.Option("-o", "--output", metavar="text|json", help="What stdout gets.", rich_help_panel=COMMON),
]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="No notes and no progress.", rich_help_panel=COMMON)
]
Verbose = Annotated[
    bool, typer.Option("-v", "--verbose", help="Tracebacks of errors.", rich_help_panel=COMMON)
]
Version = Annotated[bool, version_option(COMMON)]


class Cli(Output):
    """One call of the command line: settings, what they lead to, and where output goes."""

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
        """Flag, environment, file, default; read on first use. Raises `ConfigurationError`."""
        from cqrs_cli.settings.settings import load

        return load(self.flags)

    def connection(self, start: bool = True) -> "Connection":
        """The configured broker, or the embedded one, which `start` starts when it is down.

        Raises `ConfigurationError` for client properties that cannot be used, before any of them is.
        """
        from cqrs_cli.kafka.connection.connection import Connection

        settings = self.settings
        server = settings.bootstrap_server or self._embedded(settings.root, start)
        connection = Connection(server, settings.client_properties())
        connection.check()
        return connection

    def _embedded(self, root: Path, start: bool) -> str:
        from cqrs_cli.kafka.embedded import broker as embedded

        running = self.broker() if start else embedded.status(root)
        if running is None:
            raise UnavailableError("the embedded Kafka does not run", "start it: cqrs kafka start")
        return running.bootstrap_server

    def broker(self) -> "Broker":
        """The embedded broker, started when it is down; the one download shows how far it is."""
        from cqrs_cli.kafka.embedded import broker as embedded

        running = embedded.status(self.settings.root)
        if running is not None:
            return running
        if self.quiet or not sys.stderr.isatty():
            return embedded.start(self.settings.root, self.note)
        with self.working("starting the embedded Kafka") as now:
            return embedded.start(self.settings.root, now, now)

    def aggregate(self, name: str) -> "Aggregate":
        """The aggregate of that name; raises `UsageError` naming those that exist."""
        from cqrs_cli import registry

        return registry.load(name, self.settings.aggregates, self.settings.root)

    def aggregate_names(self) -> list[str]:
        """All aggregates of the project, sorted."""
        from cqrs_cli import registry

        return registry.names(self.settings.aggregates, self.settings.root)

    def chosen(self, names: Sequence[str] | None) -> dict[str, "Aggregate"]:
        """The aggregates of these names, without names all of the project's; raises `UsageError` if there are none."""
        names = names or self.aggregate_names()
        if not names:
            place = self.settings.root / self.settings.aggregates.replace(".", "/")
            raise UsageError(f"there are no aggregates in {place}", "make a project with one: cqrs new DIR")
        return {name: self.aggregate(name) for name in names}

    def failure(self, error: CqrsError, cause: BaseException | None = None) -> None:
        """As `Output.failure`; a command that the hint names is one of this call's cluster."""
        super().failure(type(error)(error.message, self.with_flags(error.hint), error.more), cause)

    def with_flags(self, hint: str) -> str:
        """A hint whose command, behind a colon, has the flags that say which cluster and topics this call was about."""
        return with_flags(hint, self.flags)

    def topics(self, name: str) -> "Topics":
        """The four topics of the aggregate of that name."""
        from cqrs_cli.kafka.topics.topics import Topics

        return Topics(name, self.settings.topic_prefix)


@dataclass(frozen=True)
class Call:
    """A command line that has been read: what to call with what. Nothing has happened yet."""

    cli: Cli
    function: Callable[..., int | None]
    arguments: Mapping[str, Any]

    def __call__(self) -> int:
        return self.function(self.cli, **self.arguments) or 0


def command(
    app: typer.Typer, name: str | None = None, *, examples: Sequence[str]
) -> Callable[[Function], Function]:
    """Register a function as a command of `app` and give it the common options.

    The function stays as it is, for tests to call. Its docstring is the help, which ends with the examples;
    each is a whole command line that begins with `cqrs`.
    """

    def register(function: Function) -> Function:
        spelled = name or function.__name__.replace("_", "-")
        panel = PANELS.get(spelled) if app is root else None  # `cqrs kafka status` is no `cqrs status`
        described = _unwrapped(function.__doc__)
        app.command(spelled, help=described, epilog=_epilog(examples), rich_help_panel=panel)(_read(function))
        return function

    return register


def _epilog(examples: Sequence[str]) -> str:
    """Typer takes square brackets for markup."""
    return "\n".join(["Examples:", *(example.replace("[", "\\[") for example in examples)])


def _unwrapped(docstring: str | None) -> str:
    """Each paragraph on one line: Typer wraps to the terminal's width, but keeps the line ends that it finds."""
    return "\n\n".join(" ".join(part.split()) for part in (docstring or "").split("\n\n"))


def _read(function: Callable[..., int | None]) -> Callable[..., Call]:
    """What Typer calls: the function's own parameters and the common ones in, a `Call` out."""
    _, *own = inspect.signature(function, eval_str=True).parameters.values()

    def read(
        bootstrap_server: BootstrapServer = None,
        command_config: CommandConfig = None,
        properties: Properties = None,
        topic_prefix: TopicPrefix = None,
        output: OutputFormat = "text",
        quiet: Quiet = False,
        verbose: Verbose = False,
        version: Version = False,
        **arguments: Any,
    ) -> Call:
        flags = {
            "bootstrap_server": bootstrap_server,
            "command_config": command_config,
            "properties": properties or None,
            "topic_prefix": topic_prefix,
        }
        return Call(Cli(flags, output=output, quiet=quiet, verbose=verbose), function, arguments)

    common = list(inspect.signature(read).parameters.values())[:-1]
    every = [_named(parameter) for parameter in [*own, *common]]
    read.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    read.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    return read


def _named(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter, by name only; a flag without the `<bool>` that Typer would show in the help."""
    for option in getattr(parameter.annotation, "__metadata__", ()):
        if isinstance(option, OptionInfo) and parameter.annotation.__origin__ is bool:
            option.metavar = ""
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def duration(flag: str, text: str) -> timedelta:
    """What a flag says, like `30s`; raises `UsageError`."""
    from cqrs_cli.settings.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}", f"write {flag} 30s") from None


def complete_aggregate(incomplete: str) -> list[str]:
    """Shell completion: the project's aggregates; silence rather than an error in the middle of a line."""
    try:
        return [name for name in Cli().aggregate_names() if name.startswith(incomplete)]
    except Exception:  # whatever is wrong will be said when the command runs
        return []


AggregateName = Annotated[
    str, typer.Argument(metavar="AGGREGATE", help="The aggregate's name.", autocompletion=complete_aggregate)
]
AggregateNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="AGGREGATE", help="Default: all.", autocompletion=complete_aggregate),
]
