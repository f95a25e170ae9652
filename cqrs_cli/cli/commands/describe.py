"""`cqrs describe`: describe an aggregate's commands, events and state."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import COMMON_PANEL, argument, complete_aggregate, completion_from, option
from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from msgspec import Struct

    from cqrs_cli.core.aggregate.aggregate import Aggregate


def _complete_messages(ctx: typer.Context) -> Iterable[str]:
    """Return the names of the commands, the events and the state of the aggregate on the command line."""
    from cqrs_cli.core.aggregate.json_schema import message_classes

    return message_classes(Cli().aggregate(ctx.params["aggregate"]))


@command(
    app,
    examples=["cqrs describe bank_account", "cqrs describe bank_account -o protobuf"],
)
def describe(
    cli: Cli,
    aggregate: Annotated[
        str | None, argument("AGGREGATE", "The aggregate's name. Default: all.", complete=complete_aggregate)
    ] = None,
    command: Annotated[
        str | None,
        argument(
            "COMMAND",
            "Name of a command, an event or the state.",
            complete=completion_from(_complete_messages),
        ),
    ] = None,
    output: Annotated[
        Literal["text", "json", "asyncapi", "avro", "json-schema", "protobuf"],
        option(
            "-o --output text|json|asyncapi|avro|json-schema|protobuf",
            "Format of stdout.",
            rich_help_panel=COMMON_PANEL,
        ),
    ] = "text",
) -> None:
    """Describe commands, events and states: their fields, types and defaults.

    -o json prints JSON Schema of the data. -o avro, json-schema and protobuf describe the whole records of an
    aggregate, or only the data of COMMAND. -o asyncapi describes topics and messages. The command needs no broker.
    """
    from cqrs_cli.cli.render import describe as render
    from cqrs_cli.core.aggregate import json_schema

    aggregates_by_name = cli.usable_aggregates([aggregate] if aggregate else None)
    if output == "asyncapi":
        if command is not None:
            raise UsageError("-o asyncapi describes whole aggregates", "leave the command out")
        from cqrs_cli.client.asyncapi import asyncapi as document

        asyncapi_document = document(aggregates_by_name, cli.settings.topic_prefix)
        cli.print_result(asyncapi_document, render.indented_json(asyncapi_document))
    elif output in ("avro", "json-schema", "protobuf"):
        if aggregate is None:
            raise UsageError(
                f"-o {output} describes one aggregate", f"name it: cqrs describe NAME -o {output}"
            )
        _print_contract(cli, aggregates_by_name[aggregate], command, output)
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
        message = _message_class(aggregates_by_name[aggregate], command)
        cli.print_result(
            json_schema.message_schema(message), render.message_text(aggregates_by_name[aggregate], message)
        )


def _message_class(aggregate: "Aggregate", command: str) -> "type[Struct]":
    """Return the class of a message of the command line; raises `UsageError`, which lists the messages."""
    from cqrs_cli.core.aggregate.json_schema import message_classes

    messages = message_classes(aggregate)
    name = command.removeprefix(f"{aggregate.name}.")
    if name not in messages:
        raise UsageError(f"{aggregate.name} has no {command!r}", f"known: {', '.join(messages)}")
    return messages[name]


def _print_contract(cli: Cli, aggregate: "Aggregate", command: str | None, output: str) -> None:
    """Print the schema of the aggregate's records, or of the data of one message, in the format `output`."""
    from cqrs_cli.cli.render.describe import indented_json
    from cqrs_cli.core.aggregate.json_schema import message_schema
    from cqrs_cli.core.aggregate.record_schemas import records_schema

    schema = message_schema(_message_class(aggregate, command)) if command else records_schema(aggregate)
    if output == "protobuf":
        from cqrs_cli.core.aggregate.protobuf import proto_file
        from cqrs_cli.doctor.contracts import protobuf_numbers

        text = proto_file(
            schema, aggregate.name, protobuf_numbers(cli.settings.root, aggregate, cli.print_note)
        )
    elif output == "avro":
        from cqrs_cli.core.aggregate.avro import avro_schema

        text = indented_json(avro_schema(schema, aggregate.name))
    else:
        text = indented_json(schema)
    cli.write_line(text.encode())
