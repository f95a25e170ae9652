"""The options and arguments that several commands take, each spelled once, as a type."""

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

import typer

from cqrs_cli.cli.app import version_option
from cqrs_cli.cli.context import Cli
from cqrs_cli.errors import ConfigurationError, UsageError

#: The panel of the options that every command takes.
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


def complete_aggregate(incomplete: str) -> list[str]:
    """Shell completion: the project's aggregates; silence rather than an error in the middle of a line."""
    try:
        return [name for name in Cli().aggregate_names() if name.startswith(incomplete)]
    except Exception:  # the command itself reports it when it runs
        return []


def complete_message(ctx: typer.Context, incomplete: str) -> list[str]:
    """Shell completion: the commands, events and the state of the aggregate named before."""
    try:
        from cqrs_cli.core.aggregate.json_schema import message_classes

        known = message_classes(Cli().aggregate(ctx.params["aggregate"]))
        return [name for name in known if name.startswith(incomplete)]
    except Exception:  # the command itself reports it when it runs
        return []


def complete_from(package: str) -> Callable[[str], list[str]]:
    """Shell completion: the files of a package of the project, `processes` or `projections`."""

    def complete(incomplete: str) -> list[str]:
        from cqrs_cli import registry

        try:
            known = registry.names(package, Cli().settings.root)
            return [name for name in known if name.startswith(incomplete)]
        except Exception:  # the command itself reports it when it runs
            return []

    return complete


AggregateName = Annotated[
    str, typer.Argument(metavar="AGGREGATE", help="The aggregate's name.", autocompletion=complete_aggregate)
]
OnlyCommandId = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="Only the command with this id.")
]
OnlyAggregateId = Annotated[
    str | None, typer.Option("--aggregate-id", metavar="ID", help="Only commands for this one.")
]
OnlyCommandTypes = Annotated[
    list[str] | None, typer.Option("--type", metavar="NAME", help="Only this command; repeatable.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
AggregateNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="AGGREGATE", help="Default: all.", autocompletion=complete_aggregate),
]

Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Where Spark runs.", show_default="local[*]")
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="K=V", help="A Spark property; repeatable.")
]
MetricsAddress = Annotated[
    str | None,
    typer.Option(
        "--metrics-address",
        metavar="[HOST:]PORT",
        help="Serve Prometheus metrics, /healthz and /readyz there; without HOST on loopback.",
    ),
]

#: Names of the properties that Spark itself hides: the default of its `spark.redaction.regex`.
_SECRET = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)


def spark_properties(conf: Iterable[str]) -> dict[str, str]:
    """`--conf K=V` as Spark properties; raises `UsageError` for one that has no `=`, and for a secret."""
    pairs = [text.partition("=") for text in conf]
    for name, equals, _ in pairs:
        if _SECRET.search(name):
            raise UsageError(
                f"--conf {name}: a secret is not accepted on the command line",
                "put it into the spark-defaults.conf of the folder that SPARK_CONF_DIR names",
            )
        if not (name and equals):
            raise UsageError(f"--conf {name}: no value", "write --conf KEY=VALUE")
    return {name: value for name, _, value in pairs}


def moment(flag: str, text: str) -> int:
    """The time (ms) that a flag was given: a moment, or a duration ago; raises `UsageError`."""
    from cqrs_cli.settings.moments import parse_moment

    try:
        return parse_moment(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}", f"write {flag} 1d, or a time") from None


def deadline(flag: str, text: str) -> int:
    """The time to come (ms) that a flag was given: a moment, or a duration from now; raises `UsageError`."""
    from cqrs_cli.settings.moments import parse_deadline

    try:
        return parse_deadline(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}", f"write {flag} 30s, or a time to come") from None


def metrics_at(address: str | None, port: int | None) -> tuple[str, int] | None:
    """The host and the port of `--metrics-address [HOST:]PORT` or `--metrics-port N`; raises `UsageError`."""
    if address is not None and port is not None:
        raise UsageError("--metrics-port says the same as --metrics-address", "give one of them")
    if address is None:
        return None if port is None else ("127.0.0.1", port)
    host, _, number = address.rpartition(":")
    if not (number.isascii() and number.isdigit() and int(number) < 2**16):
        raise UsageError(
            f"--metrics-address {address}: no port", "write --metrics-address 9500, or HOST:9500"
        )
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise UsageError(f"--metrics-address {address}: no host", "write --metrics-address [::1]:9500")
    return host.strip("[]") or "127.0.0.1", int(number)


def check_sqlalchemy() -> None:
    """Raises `ConfigurationError` where the extra `projections` is not installed."""
    from importlib.util import find_spec

    if find_spec("sqlalchemy") is None:
        raise ConfigurationError(
            "projections need SQLAlchemy", "install it: pip install 'cqrs-cli[projections]'"
        )


def duration(flag: str, text: str) -> timedelta:
    """The duration that a flag was given, like `30s`; raises `UsageError`."""
    from cqrs_cli.settings.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}", f"write {flag} 30s") from None
