"""`cqrs describe`: what an aggregate takes, and what comes of it."""

from collections.abc import Iterable
from typing import Annotated

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import argument, complete_aggregate, completing, option
from cqrs_cli.errors import UsageError


def _messages(ctx: typer.Context) -> Iterable[str]:
    """The commands, events and the state of the aggregate named before."""
    from cqrs_cli.core.aggregate.json_schema import message_classes

    return message_classes(Cli().aggregate(ctx.params["aggregate"]))


@command(
    app,
    examples=["cqrs describe bank_account", "cqrs describe bank_account Deposit -o json"],
)
def describe(
    cli: Cli,
    aggregate: Annotated[
        str | None, argument("AGGREGATE", "Default: all.", complete=complete_aggregate)
    ] = None,
    command: Annotated[
        str | None,
        argument("COMMAND", "A command, an event or the state.", complete=completing(_messages)),
    ] = None,
    asyncapi: Annotated[
        bool, option("--asyncapi", "Print an AsyncAPI 3 document of topics and messages.")
    ] = False,
) -> None:
    """Describe commands, events and states: fields, types, defaults and values.

    With -o json it prints JSON Schema. It needs no broker.
    """
    from cqrs_cli.cli.render import describe as render
    from cqrs_cli.core.aggregate import json_schema

    chosen = cli.usable([aggregate] if aggregate else None)
    if asyncapi:
        if command is not None:
            raise UsageError("--asyncapi is of whole aggregates", "leave the command out")
        from cqrs_cli.client.asyncapi import asyncapi as document

        found = document(chosen, cli.settings.topic_prefix)
        cli.result(found, render.indented(found))
    elif aggregate is None:
        documents = {name: json_schema.aggregate_schema(loaded) for name, loaded in chosen.items()}
        cli.result({"aggregates": documents}, render.overview_text(chosen))
    elif command is None:
        loaded = chosen[aggregate]
        cli.result(json_schema.aggregate_schema(loaded), render.aggregate_text(loaded))
    else:
        messages = json_schema.message_classes(chosen[aggregate])
        name = command.removeprefix(f"{aggregate}.")
        if name not in messages:
            raise UsageError(f"{aggregate} has no {command!r}", f"known: {', '.join(messages)}")
        cli.result(
            json_schema.message_schema(messages[name]), render.message_text(chosen[aggregate], messages[name])
        )
