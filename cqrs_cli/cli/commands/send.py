"""`cqrs send`: one command from the command line, or many from a file."""

import time
from typing import Annotated

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import complete_aggregate, duration
from cqrs_cli.errors import UsageError
from cqrs_cli.settings.durations import milliseconds


def complete_command(ctx: typer.Context, incomplete: str) -> list[str]:
    """Shell completion: the aggregate's commands."""
    try:
        name = ctx.params["aggregate"]
        known = (wire_type.removeprefix(f"{name}.") for wire_type in Cli().aggregate(name).commands)
        return [wire_type for wire_type in known if wire_type.startswith(incomplete)]
    except Exception:  # whatever is wrong will be said when the command runs
        return []


@command(
    app,
    examples=[
        "cqrs send bank_account acc-42 Open owner=Ada",
        "cqrs send bank_account acc-42 Deposit amount:=100 --wait",
        "cqrs send bank_account acc-42 Withdraw amount=30 --expect 2 --expires 30s",
        "cqrs send --file commands.ndjson --wait -o json",
    ],
)
def send(
    cli: Cli,
    aggregate: Annotated[
        str | None, typer.Argument(metavar="AGGREGATE", autocompletion=complete_aggregate, help="Its name.")
    ] = None,
    id: Annotated[str | None, typer.Argument(metavar="ID", help="Which one of them.")] = None,
    command: Annotated[
        str | None, typer.Argument(metavar="COMMAND", autocompletion=complete_command, help="What to do.")
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Argument(metavar="FIELD", help="field=text, converted to its type, or field:=json."),
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Commands, one JSON object a line; - is stdin.")
    ] = None,
    expect: Annotated[
        str | None, typer.Option(metavar="V", help="Expected version: any, none, exists, N or >=N.")
    ] = None,
    command_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Idempotency key; unset: a new UUIDv7.")
    ] = None,
    correlation: Annotated[str | None, typer.Option(metavar="ID", help="Correlation id.")] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="Reject it if decided later than this, like 30s.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Print what was decided.")] = False,
    timeout: Annotated[str, typer.Option(metavar="TIME", help="Longest wait for the next outcome.")] = "30s",
) -> None:
    """Send a command, or many from a file.

    A line of FILE is a CloudEvent, or has type, subject and data, and id and source are filled in. Lines are sent as
    they are read and judged when they are decided; one that is no command, or has an attribute that is nearly a known
    one (expectedversoin), ends with exit 2 and says how many were sent.

    With --wait each outcome is printed; exit 7 if one of them is not accepted, unchanged, or a duplicate of those, and
    8 if none comes in time.
    """
    from cqrs_cli.cli.render.send import send_file, send_one, send_one_and_wait
    from cqrs_cli.client.compose import compose

    patience = duration("--timeout", timeout).total_seconds() if wait else None
    single = (aggregate, id, command, fields, expect, command_id, correlation, expires)
    if file is not None:
        if any(single):
            raise UsageError(
                "with --file the lines say everything", "leave out what belongs to a single command"
            )
        return send_file(cli, file, patience)
    if aggregate is None or id is None or command is None:
        raise UsageError("AGGREGATE, ID and COMMAND are needed, or --file", "see cqrs send --help")
    lifetime = None if expires is None else milliseconds(duration("--expires", expires))
    expiry = None if lifetime is None else time.time_ns() // 1_000_000 + lifetime
    composed = compose(
        cli.aggregate(aggregate),
        id,
        command,
        fields or [],
        id=command_id,
        expected=expect,
        correlation=correlation,
        expiry=expiry,
    )
    if patience is None:
        return send_one(cli, composed)
    return send_one_and_wait(cli, composed, patience)
