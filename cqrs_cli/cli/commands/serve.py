"""`cqrs serve`: serve the aggregates over HTTP."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, option
from cqrs_cli.errors import ConfigurationError


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
        Path | None, option("--token-file FILE", "Bearer token that every request needs.")
    ] = None,
    erase_token_file: Annotated[
        Path | None, option("--erase-token-file FILE", "Second bearer token, which also permits erasing.")
    ] = None,
    personal_token_file: Annotated[
        Path | None,
        option("--personal-token-file FILE", "Third bearer token, which also shows personal fields."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, option("--allow-host NAME", "Host name of the gateway; repeatable.")
    ] = None,
) -> None:
    """Serve states, histories, events and commands over HTTP, and a page to view them, until stopped.

    The gateway folds events into its own replicas, so a read needs no owner and no broker. It sends commands to their
    topics, and answers with the outcome. GET /openapi.json describes the API. A gateway that other machines can reach
    needs a token, and a proxy with TLS.
    """
    from cqrs_cli.client.background_sender import BackgroundSender
    from cqrs_cli.following.gateway.gateway import Gateway
    from cqrs_cli.following.gateway.guard import host_name
    from cqrs_cli.following.gateway.server import limits_for, listen, make_server, open_followers, run_server
    from cqrs_cli.following.gateway.token import LOOPBACK, GatewayTokens
    from cqrs_cli.system.memory import bound_arenas

    bound_arenas()
    cli.timestamped = not sys.stderr.isatty()
    tokens = GatewayTokens.read(host, token_file, erase_token_file, personal_token_file)
    settings = cli.settings
    if tokens.personal is not None:
        if (keyring := settings.keys()) is None:
            raise ConfigurationError("--personal-token-file: no keyring is set", "set keyring")
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
        if sender is not None:
            stack.callback(sender.close)
        host_text = f"[{host}]" if ":" in host else host
        address = f"http://{host_text}:{listener.getsockname()[1]}"
        cli.print_note(f"serving {', '.join(aggregates_by_name)}: {address}; Ctrl-C stops")
        gateway = Gateway(followers, sender, limits_for(followers.values()))
        run_server(make_server(gateway, hosts, tokens), listener)
