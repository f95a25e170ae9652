"""The options and arguments that several commands take, each defined once, as a type."""

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from cqrs_cli.cli.app import version_option
from cqrs_cli.cli.context import Cli
from cqrs_cli.errors import UsageError
from cqrs_cli.settings.durations import parse_duration
from cqrs_cli.settings.moments import parse_deadline, parse_moment

#: The panel of the options that every command takes.
COMMON_PANEL = "Common options"

#: Shell completion: returns the words that complete the typed text.
Complete = Callable[..., list[str]]


def option(usage: str, help: str, *, complete: Complete | None = None, **more: Any) -> Any:
    """Return an option. `usage`: its names and the placeholder of its value, such as `-n --lines N`."""
    words = usage.split()
    names = [word for word in words if word.startswith("-")]
    metavar = next((word for word in words if not word.startswith("-")), None)
    return typer.Option(*names, metavar=metavar, help=help, autocompletion=complete, **more)


def argument(metavar: str, help: str, *, complete: Complete | None = None) -> Any:
    """Return an argument. `metavar`: its name in the help."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=complete)


BootstrapServer = Annotated[
    str | None,
    option(
        "-b --bootstrap-server HOST:PORT",
        "Kafka's address. Default: the embedded broker.",
        rich_help_panel=COMMON_PANEL,
    ),
]
CommandConfig = Annotated[
    Path | None,
    option(
        "--command-config FILE",
        "Java properties of the Kafka clients: TLS, SASL.",
        rich_help_panel=COMMON_PANEL,
    ),
]
Properties = Annotated[
    list[str] | None,
    option("-X KEY=VALUE", "One Kafka client property; repeatable.", rich_help_panel=COMMON_PANEL),
]
TopicPrefix = Annotated[
    str | None, option("--topic-prefix TEXT", "Prefix of all topics.", rich_help_panel=COMMON_PANEL)
]
OutputFormat = Annotated[
    Literal["text", "json"],
    option("-o --output text|json", "Format of stdout.", rich_help_panel=COMMON_PANEL),
]
SpanOutput = Annotated[
    Literal["text", "json", "otlp"],
    option(
        "-o --output text|json|otlp",
        "Format of stdout; otlp sends spans to OTEL_EXPORTER_OTLP_ENDPOINT.",
        rich_help_panel=COMMON_PANEL,
    ),
]
ReportOutput = Annotated[
    Literal["text", "json", "github", "sarif", "markdown"],
    option(
        "-o --output text|json|github|sarif|markdown",
        "Format of stdout.",
        rich_help_panel=COMMON_PANEL,
    ),
]
Quiet = Annotated[bool, option("-q --quiet", "Print no notes and no progress.", rich_help_panel=COMMON_PANEL)]
Verbose = Annotated[bool, option("-v --verbose", "Print tracebacks of errors.", rich_help_panel=COMMON_PANEL)]
Version = Annotated[bool, version_option(COMMON_PANEL)]


def completion_from(list_words: Callable[[typer.Context], Iterable[str]]) -> Complete:
    """Return a shell completion from the words that `list_words` returns; after an error it completes nothing."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            return [name for name in list_words(ctx) if name.startswith(incomplete)]
        except Exception:  # the command itself reports the error
            return []

    return complete


def complete_modules(package: str) -> Complete:
    """Return a shell completion from the modules of one of the project's packages, `processes` or `projections`."""

    def module_names(_: typer.Context) -> list[str]:
        from cqrs_cli import registry

        return registry.names(package, Cli().settings.root)

    return completion_from(module_names)


#: Shell completion: the project's aggregates.
complete_aggregate = completion_from(lambda ctx: Cli().aggregate_names())


AggregateName = Annotated[str, argument("AGGREGATE", "The aggregate's name.", complete=complete_aggregate)]
DryRun = Annotated[bool, option("--dry-run", "Only print the plan.")]
AggregateNames = Annotated[
    list[str] | None, argument("AGGREGATE", "Names of aggregates. Default: all.", complete=complete_aggregate)
]

Master = Annotated[str | None, option("--master URL", "Spark's master.", show_default="local[*]")]
Conf = Annotated[list[str] | None, option("--conf K=V", "A Spark property; repeatable.")]
MetricsAddress = Annotated[
    str | None,
    option(
        "--metrics-address [HOST:]PORT",
        "Serve Prometheus metrics, /healthz and /readyz; without HOST on loopback.",
    ),
]
StateDir = Annotated[Path | None, option("--state-dir DIR", "Folder of the shards, on a local disk.")]

#: Matches the names of properties with a secret value: the default of Spark's `spark.redaction.regex`.
_SECRET_NAME = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)


def spark_properties(conf: Iterable[str]) -> dict[str, str]:
    """Return `--conf K=V` as Spark properties; raises `UsageError` for an entry without `=`, and for a secret."""
    pairs = [text.partition("=") for text in conf]
    for name, equals, _ in pairs:
        if _SECRET_NAME.search(name):
            raise UsageError(
                f"--conf {name}: a secret is not accepted on the command line",
                "put it into the spark-defaults.conf of the folder that SPARK_CONF_DIR names",
            )
        if not (name and equals):
            raise UsageError(f"--conf {name}: no value", "write --conf KEY=VALUE")
    return {name: value for name, _, value in pairs}


_Value = TypeVar("_Value")


def parse_option(flag: str, text: str, parse: Callable[[str], _Value], example: str) -> _Value:
    """Return a flag's parsed value; raises `UsageError`, which contains an example."""
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}", f"write {flag} {example}") from None


def time_option(flag: str, text: str) -> int:
    """Return a flag's time in ms: a time, or a duration before now; raises `UsageError`."""
    return parse_option(flag, text, parse_moment, "1d, or a time")


def deadline_option(flag: str, text: str) -> int:
    """Return a flag's future time in ms: a time, or a duration from now; raises `UsageError`."""
    return parse_option(flag, text, parse_deadline, "30s, or a future time")


def duration_option(flag: str, text: str) -> timedelta:
    """Return a flag's duration, like `30s`; raises `UsageError`."""
    return parse_option(flag, text, parse_duration, "30s")


def parse_metrics_address(address: str | None) -> tuple[str, int] | None:
    """Return the host and the port of `--metrics-address [HOST:]PORT`; raises `UsageError`."""
    if address is None:
        return None
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise UsageError(
            f"--metrics-address {address}: no port", "write --metrics-address 9500, or HOST:9500"
        )
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise UsageError(f"--metrics-address {address}: no host", "write --metrics-address [::1]:9500")
    return host.strip("[]") or "127.0.0.1", int(port)
