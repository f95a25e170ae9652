"""`cqrs send`: send one command from the command line, or the commands of a file."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import (
    argument,
    complete_aggregate,
    complete_modules,
    completion_from,
    deadline_option,
    duration_option,
    option,
)
from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from cqrs_cli.client.envelope import ReadyCommand


def _complete_commands(ctx: typer.Context) -> Iterable[str]:
    """Return the names of the commands of the aggregate on the command line."""
    name = ctx.params["aggregate"]
    return (wire_type.removeprefix(f"{name}.") for wire_type in Cli().aggregate(name).commands)


@command(
    app,
    examples=[
        "cqrs send bank_account acc-42 Deposit amount:=100 --wait",
        "cqrs send --file commands.ndjson --wait -o json",
    ],
)
def send(
    cli: Cli,
    aggregate: Annotated[
        str | None, argument("AGGREGATE", "The aggregate's name.", complete=complete_aggregate)
    ] = None,
    id: Annotated[str | None, argument("ID", "The aggregate's id.")] = None,
    command: Annotated[
        str | None, argument("COMMAND", "The command's name.", complete=completion_from(_complete_commands))
    ] = None,
    fields: Annotated[
        list[str] | None,
        argument("FIELD", "field=text, converted to the field's type; field:=json; field[key]=text."),
    ] = None,
    file: Annotated[
        str | None, option("FILE", "Send the commands of this file, one JSON object a line; - is stdin.")
    ] = None,
    expect: Annotated[str | None, option("V", "Expected version: any, none, exists, N or >=N.")] = None,
    command_id: Annotated[str | None, option("--id ID", "The command's id. Default: a new UUIDv7.")] = None,
    correlation: Annotated[str | None, option("ID", "The correlation id.")] = None,
    expires: Annotated[
        str | None,
        option(
            "TIME",
            "Reject the command if it is not decided by then: 30s from now, 2026-11-21T01:02:03Z, or 2026-11-21 (UTC).",
        ),
    ] = None,
    not_before: Annotated[
        str | None,
        option(
            "--not-before TIME", "Defer the command until this time: 3d from now, or 2026-11-21T01:02:03Z."
        ),
    ] = None,
    wait: Annotated[bool, option("--wait", "Wait for the outcome, and print it.")] = False,
    projection: Annotated[
        str | None,
        option(
            "--wait-for PROJECTION",
            "As --wait, and wait until this projection has the command's events.",
            complete=complete_modules("projections"),
        ),
    ] = None,
    database: Annotated[
        str, option("--to URL", "The database of --wait-for's projection.")
    ] = "sqlite:///projections.db",
    is_dry_run: Annotated[
        bool, option("--dry-run", "Decide on this machine, print outcome and events, send nothing.")
    ] = False,
    timeout: Annotated[str, option("TIME", "Maximum wait for the next outcome.")] = "30s",
) -> None:
    """Send a command, or the commands of a file.

    Write an object field by field, customer[name]=Ada. Write a list by repeating its field, tag=a tag=b, or by index,
    lines[0][sku]=tea. Each line of --file is a CloudEvent; only type, subject and data are required.

    With --wait the command exits with 7 if a command was rejected or failed, and with 8 if no outcome comes in time.
    --dry-run decides with the current state, and exits like --wait. docs/messages.md lists all attributes.
    """
    timeout_seconds = duration_option("--timeout", timeout).total_seconds() if wait or projection else None
    if file is not None:
        single_options = (expect, command_id, correlation, expires, not_before, projection)
        if any((aggregate, id, command, fields, *single_options)):
            raise UsageError("--file names the commands to send", "leave out the options of a single command")
        from cqrs_cli.cli.commands.send_file import dry_run_file, send_file

        return dry_run_file(cli, file) if is_dry_run else send_file(cli, file, timeout_seconds)
    if aggregate is None:
        raise UsageError("AGGREGATE, ID and COMMAND are needed, or --file", "see cqrs send --help")
    from cqrs_cli.client.compose import compose
    from cqrs_cli.client.envelope import Attributes

    loaded_aggregate = cli.aggregate(aggregate)
    if id is None or command is None:
        raise UsageError(
            f"{'ID and COMMAND are' if id is None else 'COMMAND is'} missing; {aggregate} has "
            + ", ".join(cls.__name__ for cls in loaded_aggregate.commands.values()),
            f"see cqrs describe {aggregate}",
        )
    attributes = Attributes(
        id=command_id,
        expected=expect,
        correlation=correlation,
        expiry=None if expires is None else deadline_option("--expires", expires),
        not_before=None if not_before is None else deadline_option("--not-before", not_before),
    )
    ready_command = compose(loaded_aggregate, id, command, fields or [], attributes)
    if is_dry_run:
        from cqrs_cli.cli.render.queries.dry_run import dry_run

        return dry_run(cli, [ready_command], ids_may_repeat=command_id is not None)
    if timeout_seconds is None:
        return send_one_composed(cli, ready_command)
    if projection is None:
        return send_one_and_print_outcome(cli, ready_command, timeout_seconds)
    from cqrs_cli.cli.read_model_wait import ReadModelWait

    read_model = ReadModelWait(cli, ready_command.aggregate, projection, database)
    send_one_and_print_outcome(cli, ready_command, timeout_seconds)
    return read_model.wait(ready_command.subject, timeout_seconds)


def send_one_composed(cli: Cli, ready_command: "ReadyCommand") -> None:
    """Send one command, and print its partition and offset."""
    from cqrs_cli.cli.render.send import sent_result
    from cqrs_cli.client.producer import CommandProducer
    from cqrs_cli.client.send import send_one

    with CommandProducer(cli.connection(), cli.settings.partitioner) as producer:
        cli.print_result(*sent_result(send_one(producer, cli.topics(ready_command.aggregate), ready_command)))


def send_one_and_print_outcome(cli: Cli, ready_command: "ReadyCommand", timeout_seconds: float) -> None:
    """Send one command and print its outcome; raises the errors of `OutcomePrinter.raise_for_outcomes`."""
    from cqrs_cli.cli.render.send import OutcomePrinter
    from cqrs_cli.client.outcomes import OutcomeWaiter
    from cqrs_cli.client.producer import CommandProducer
    from cqrs_cli.client.send import send_one_and_wait

    connection = cli.connection()
    with (
        CommandProducer(connection, cli.settings.partitioner) as producer,
        OutcomeWaiter(connection, producer, lambda: printer.report_ownerless(connection)) as waiter,
    ):
        printer = OutcomePrinter(cli, waiter, timeout_seconds, "--id ")
        with cli.show_spinner("waiting for the outcome"), printer.report_outstanding():
            outcomes = send_one_and_wait(
                waiter, cli.topics(ready_command.aggregate), ready_command, timeout_seconds
            )
        printer.print(outcomes)
        printer.raise_for_outcomes()
