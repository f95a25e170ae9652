"""`cqrs serve`: serve the aggregates over HTTP."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, option
from cqrs_cli.cli.processes import usable_processes
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.extras import require

if TYPE_CHECKING:
    from cqrs_cli.following.projections.databases.address import DatabaseAddress


@command(
    app,
    examples=[
        "cqrs serve",
        "cqrs serve --host 0.0.0.0 --allow-host cqrs.example --token-file /run/secrets/cqrs-token",
    ],
    extras=["gateway"],
)
def serve(
    cli: Cli,
    aggregates: AggregateNames = None,
    host: Annotated[str, option("--host HOST", "Listen on this address.")] = "127.0.0.1",
    port: Annotated[
        int, option("--port PORT", "Listen on this port; 0 takes a free port.", min=0, max=65535)
    ] = 8080,
    read_only: Annotated[bool, option("--read-only", "Accept no commands.")] = False,
    token_file: Annotated[
        Path | None, option("--token-file FILE", "Bearer tokens and their rights; every request needs one.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, option("--allow-host NAME", "Accept requests for this host name; repeatable.")
    ] = None,
    projections: Annotated[
        str | None, option("--projections URL", "Show the projections in this database, too.")
    ] = None,
    state_dir: Annotated[
        Path | None, option("--state-dir DIR", "Folder of the gateway's states, on a local disk.")
    ] = None,
) -> None:
    """Serve states, histories, events and commands over HTTP, and a web console, until stopped.

    This gateway folds the events into its own copy of the states, so reads need neither a run nor the broker. It sends
    commands to their topics, and responds with the outcome. GET /openapi.json describes the API. If other machines can
    reach the gateway, it needs a token, and a proxy with TLS.
    """
    from cqrs_cli.client.background_sender import BackgroundSender
    from cqrs_cli.console.api import ConsoleApi
    from cqrs_cli.console.project import ConsoleProject
    from cqrs_cli.console.sampler import StatusSampler
    from cqrs_cli.following.gateway.gateway import Gateway
    from cqrs_cli.following.gateway.guard import host_name
    from cqrs_cli.following.gateway.server import limits_for, listen, make_server, open_followers, run_server
    from cqrs_cli.following.gateway.token import LOOPBACK, read_required_tokens
    from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
    from cqrs_cli.system.memory import bound_arenas
    from cqrs_cli.telemetry.otel.export_settings import check_export_settings
    from cqrs_cli.telemetry.otel.tracing import tracing

    check_export_settings()
    bound_arenas()
    cli.flags.update(state_dir=state_dir)
    cli.timestamped = not sys.stderr.isatty()
    tokens = read_required_tokens(token_file, host)
    settings = cli.settings
    if any("personal" in access.rights for access in tokens.values()):
        if (keyring := settings.keys()) is None:
            raise ConfigurationError(f"{token_file}: the right personal needs a keyring", "set keyring")
        keyring.load()  # raises an error for an unreadable keyring before the first request
    aggregates_by_name = cli.usable_aggregates(aggregates)
    names = {host_name(name) for name in allow_host or ()}
    hosts = names | (LOOPBACK if names or host in LOOPBACK else set())
    with ExitStack() as stack:
        listener = stack.enter_context(listen(host, port))  # first, so that a port in use has no side effects
        connection = cli.connection()
        prefix, partitioner = settings.topic_prefix, settings.partitioner
        followers = open_followers(
            connection, aggregates_by_name, prefix, partitioner, settings.state_dir, cli.print_note, stack
        )
        sender = None if read_only else BackgroundSender(connection, settings.partitioner)
        stack.enter_context(tracing(cli.print_note))
        if sender is not None:
            stack.callback(sender.close)
        host_text = f"[{host}]" if ":" in host else host
        address = f"http://{host_text}:{listener.getsockname()[1]}"
        cli.print_note(f"serving {', '.join(aggregates_by_name)}: {address}; Ctrl-C stops")
        gateway = Gateway(followers, sender, limits_for(followers.values()), DecisionSettings.of(settings))
        project = ConsoleProject(
            settings,
            connection,
            aggregates_by_name,
            [] if aggregates else usable_processes(cli, None),
            None if projections is None else _parse_database(cli, projections),
            report=cli.print_note,
            with_flags=lambda command: cli.with_flags(f": {command}").removeprefix(": "),
        )
        sampler = StatusSampler(project)
        stack.callback(sampler.close)
        sampler.start()
        run_server(make_server(gateway, hosts, tokens, ConsoleApi(project, sampler)), listener)


def _parse_database(cli: Cli, url: str) -> "DatabaseAddress":
    require("projections", "--projections")
    from cqrs_cli.following.projections.database import parse_database

    return parse_database(url, cli.settings.root, "--projections")
