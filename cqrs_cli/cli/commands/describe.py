"""`cqrs describe`: describe an aggregate's commands, events and state."""

from collections.abc import Iterable
from typing import Annotated

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import argument, complete_aggregate, completion_from, option
from cqrs_cli.errors import UsageError


def _complete_messages(ctx: typer.Context) -> Iterable[str]:
    """Return the names of the commands, the events and the state of the aggregate on the command line."""
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
        argument(
            "COMMAND", "A command, an event or the state.", complete=completion_from(_complete_messages)
        ),
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

    aggregates_by_name = cli.usable_aggregates([aggregate] if aggregate else None)
    if asyncapi:
        if command is not None:
            raise UsageError("--asyncapi describes whole aggregates", "leave the command out")
        from cqrs_cli.client.asyncapi import asyncapi as document

        asyncapi_document = document(aggregates_by_name, cli.settings.topic_prefix)
        cli.print_result(asyncapi_document, render.indented_json(asyncapi_document))
    elif aggregate is None:
        documents = {
            name: json_schema.aggregate_schema(loaded_aggregate)
            for name, loaded_aggregate in aggregates_by_name.items()
        }
        cli.print_result({"aggregates": documents}, render.overview_text(aggregates_by_name))
    elif command is None:
        loaded_aggregate = aggregates_by_name[aggregate]
        cli.print_result(
            json_schema.aggregate_schema(loaded_aggregate), render.aggregate_text(loaded_aggregate)
        )
    else:
        messages = json_schema.message_classes(aggregates_by_name[aggregate])
        name = command.removeprefix(f"{aggregate}.")
        if name not in messages:
            raise UsageError(f"{aggregate} has no {command!r}", f"known: {', '.join(messages)}")
        cli.print_result(
            json_schema.message_schema(messages[name]),
            render.message_text(aggregates_by_name[aggregate], messages[name]),
        )
