"""`cqrs trace`: everything that belongs to a correlation or a command."""

from functools import partial
from typing import Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import argument, complete_aggregate, moment, option
from cqrs_cli.errors import CqrsError


@command(
    app,
    examples=[
        "cqrs trace order-9",
        "cqrs trace 0198f2c4-7c1e-7b8a-9d55-0d6f3a1b2c3d --since 7d",
    ],
)
def trace(
    cli: Cli,
    wanted: Annotated[str, argument("ID", "Id of a correlation, a command or an aggregate.")],
    since: Annotated[
        str, option("TIME", "Search records since this time: 7d ago, 2026-11-21T01:02:03Z, 2026-11-21 (UTC).")
    ] = "1d",
    aggregates: Annotated[
        list[str] | None,
        option(
            "--aggregate AGGREGATE",
            "Search only this aggregate; repeatable. Default: all.",
            complete=complete_aggregate,
        ),
    ] = None,
) -> None:
    """Show the commands, outcomes, events and dead letters of a correlation, over all aggregates.

    ID is the id of a correlation or a command; else the id of an aggregate, whose commands are followed. An outcome
    is shown below its command, and a command below the event that caused it.

    It reads all records since --since, and prints how many. The command exits with 1 if it finds nothing.
    """
    from cqrs_cli.cli.event_decryptor import opener_of
    from cqrs_cli.cli.render.queries.trace import searched_text, trace_document, trace_text
    from cqrs_cli.client.queries.lineage import lineage
    from cqrs_cli.client.queries.trace import trace_messages

    begin = moment("--since", since)
    cli.check_aggregates(*aggregates or ())
    topics = {name: cli.topics(name) for name in aggregates or cli.aggregate_names()}
    with cli.working(f"searching since {since}") as now:
        openers = {name: opener_of(cli, name) for name in topics}
        traced = trace_messages(cli.connection(), topics, wanted, begin, now, openers)
    for name, why in traced.missing.items():
        cli.note(f"{name}: {cli.with_flags(str(why))}")
    where = searched_text(traced, begin)
    if not traced.messages:
        raise CqrsError(
            f"no correlation, no command and no aggregate has the id {wanted}: {where}",
            f"look further back, with --since 7d; all events of an aggregate: cqrs show AGGREGATE {wanted} --history",
        )
    if traced.of_aggregate:
        cli.note(f"no correlation and no command has the id {wanted}: it is an aggregate's")
    if traced.skipped_correlations:
        cli.note(
            f"its {traced.skipped_correlations:,} correlations are not followed: these are its own messages alone",
            "warning",
        )
    found = lineage(traced.messages)
    cli.result(trace_document(found, traced, begin), partial(trace_text, found))
    cli.note(where)
