"""`cqrs send`: one command from the command line, or many from a file."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import (
    argument,
    complete_aggregate,
    complete_from,
    completing,
    deadline,
    duration,
    option,
)
from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from cqrs_cli.client.envelope import Composed


def _commands(ctx: typer.Context) -> Iterable[str]:
    """The commands of the aggregate named before."""
    name = ctx.params["aggregate"]
    return (wire_type.removeprefix(f"{name}.") for wire_type in Cli().aggregate(name).commands)


@command(
    app,
    examples=[
        "cqrs send bank_account acc-42 Open owner=Ada",
        "cqrs send bank_account acc-42 Deposit amount:=100 --wait",
        "cqrs send bank_account acc-42 Withdraw amount=30 --expect 2 --expires 30s",
        "cqrs send bank_account acc-42 Deposit amount:=100 --projected all_events",
        "cqrs send bank_account acc-42 Withdraw amount=30 --dry-run",
        "cqrs send bank_account acc-42 Withdraw amount=30 --not-before 3d --wait",
        "cqrs send --file commands.ndjson --wait -o json",
    ],
)
def send(
    cli: Cli,
    aggregate: Annotated[str | None, argument("AGGREGATE", "Its name.", complete=complete_aggregate)] = None,
    id: Annotated[str | None, argument("ID", "Which one of them.")] = None,
    command: Annotated[str | None, argument("COMMAND", "What to do.", complete=completing(_commands))] = None,
    fields: Annotated[
        list[str] | None,
        argument("FIELD", "field=text, converted to its type, or field:=json; field[key]=text within."),
    ] = None,
    file: Annotated[str | None, option("FILE", "Commands, one JSON object a line; - is stdin.")] = None,
    expect: Annotated[str | None, option("V", "Expected version: any, none, exists, N or >=N.")] = None,
    command_id: Annotated[str | None, option("--id ID", "Idempotency key; unset: a new UUIDv7.")] = None,
    correlation: Annotated[str | None, option("ID", "Correlation id.")] = None,
    expires: Annotated[
        str | None,
        option(
            "TIME", "Reject it if decided later: 30s from now, 2026-11-21T01:02:03Z, or 2026-11-21 (UTC)."
        ),
    ] = None,
    not_before: Annotated[
        str | None, option("--not-before TIME", "Decide it then: 3d from now, or 2026-11-21T01:02:03Z.")
    ] = None,
    traceparent: Annotated[
        str | None, option("--traceparent TRACE", "W3C trace, handed on to events and outcome.")
    ] = None,
    tracestate: Annotated[
        str | None, option("--tracestate STATE", "What tracers add to it; handed on with it.")
    ] = None,
    wait: Annotated[bool, option("--wait", "Print what was decided.")] = False,
    projected: Annotated[
        str | None,
        option(
            "--projected NAME",
            "As --wait, and wait until this projection has the events.",
            complete=complete_from("projections"),
        ),
    ] = None,
    database: Annotated[str, option("--to URL", "The projection's database.")] = "sqlite:///projections.db",
    rehearse: Annotated[
        bool, option("--dry-run", "Decide here and now, print outcome and events, send nothing.")
    ] = False,
    timeout: Annotated[str, option("TIME", "Longest wait for the next outcome.")] = "30s",
) -> None:
    """Send a command, or many from a file.

    A field that is an object is filled by name, customer[name]=Ada; a list takes its field again, tag=a tag=b, or
    lines[0][sku]=tea. cqrs describe AGGREGATE has them all.

    A line of FILE is a CloudEvent, or has type, subject and data, and id and source are filled in. Lines are sent as
    they are read and judged when they are decided; one that is not a command, or has an attribute that is nearly a
    known one (expectedversoin), ends with exit 2 and says how many were sent.

    With --wait each outcome is printed; exit 7 if one of them is not accepted, unchanged, deferred, or a duplicate of
    those, and 8 if none comes in time. A deferred command has another outcome once it is due. After a second without
    one it says so if nobody decides: no run ever did, or it stopped. A run that was killed looks as if it still worked.

    With --projected a query that is begun after it sees what the command changed.

    With --dry-run the code decides here, against the state that `cqrs show` shows; of a file each command sees those
    before it. Nothing is sent, and the exit status is that of --wait. A command that would be deferred is shown with
    the time at which it is due. What is decided later may differ: other commands may come before it.
    """
    patience = duration("--timeout", timeout).total_seconds() if wait or projected else None
    if file is not None:
        given = (expect, command_id, correlation, expires, not_before, traceparent, tracestate, projected)
        if any((aggregate, id, command, fields, *given)):
            raise UsageError(
                "with --file the lines say everything", "leave out what belongs to a single command"
            )
        from cqrs_cli.cli.commands.send_file import dry_run_file, send_file

        return dry_run_file(cli, file) if rehearse else send_file(cli, file, patience)
    if aggregate is None:
        raise UsageError("AGGREGATE, ID and COMMAND are needed, or --file", "see cqrs send --help")
    from cqrs_cli.client.compose import compose
    from cqrs_cli.client.envelope import Attributes

    loaded = cli.aggregate(aggregate)
    if id is None or command is None:
        raise UsageError(
            f"{'ID and COMMAND are' if id is None else 'COMMAND is'} missing; {aggregate} has "
            + ", ".join(cls.__name__ for cls in loaded.commands.values()),
            f"see cqrs describe {aggregate}",
        )
    attributes = Attributes(
        id=command_id,
        expected=expect,
        correlation=correlation,
        expiry=None if expires is None else deadline("--expires", expires),
        not_before=None if not_before is None else deadline("--not-before", not_before),
        traceparent=traceparent,
        tracestate=tracestate,
    )
    composed = compose(loaded, id, command, fields or [], attributes)
    if rehearse:
        from cqrs_cli.cli.render.queries.dry_run import dry_run

        return dry_run(cli, [composed], ids_may_repeat=command_id is not None)
    if patience is None:
        return send_one_composed(cli, composed)
    if projected is None:
        return send_one_and_print_outcome(cli, composed, patience)
    from cqrs_cli.cli.projected import ReadModelWait

    read_model = ReadModelWait(cli, composed.aggregate, projected, database)
    send_one_and_print_outcome(cli, composed, patience)
    return read_model.wait(composed.subject, patience)


def send_one_composed(cli: Cli, composed: "Composed") -> None:
    """Send one command and print where it went."""
    from cqrs_cli.cli.render.send import sent
    from cqrs_cli.client.producer import CommandProducer
    from cqrs_cli.client.send import send_one

    with CommandProducer(cli.connection(), cli.settings.partitioner) as producer:
        cli.result(*sent(send_one(producer, cli.topics(composed.aggregate), composed)))


def send_one_and_print_outcome(cli: Cli, composed: "Composed", patience: float) -> None:
    """Send one command and print its outcome; raises as `OutcomePrinter.conclude`."""
    from cqrs_cli.cli.render.send import OutcomePrinter
    from cqrs_cli.client.outcomes import OutcomeWaiter
    from cqrs_cli.client.producer import CommandProducer
    from cqrs_cli.client.send import send_one_and_wait

    connection = cli.connection()
    with (
        CommandProducer(connection, cli.settings.partitioner) as producer,
        OutcomeWaiter(connection, producer, lambda: printer.say_nobody_decides(connection)) as waiter,
    ):
        printer = OutcomePrinter(cli, waiter, patience, "--id ")
        with cli.working("waiting for the outcome"), printer.naming_what_is_open():
            outcomes = send_one_and_wait(waiter, cli.topics(composed.aggregate), composed, patience)
        printer.print(outcomes)
        printer.conclude()
