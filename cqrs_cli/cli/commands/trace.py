"""`cqrs trace`: show all messages of a correlation or a command."""

from functools import partial
from typing import Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import argument, complete_aggregate, option, time_option
from cqrs_cli.errors import CqrsError


@command(app, examples=["cqrs trace order-9", "cqrs trace 0198f2c4-7c1e-7b8a-9d55-0d6f3a1b2c3d --since 7d"])
def trace(
    cli: Cli,
    searched_id: Annotated[str, argument("ID", "Id of a correlation, a command or an aggregate.")],
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
    from cqrs_cli.cli.aggregate_codec import aggregate_codec
    from cqrs_cli.cli.render.queries.trace import searched_text, trace_document, trace_text
    from cqrs_cli.client.queries.lineage import lineage
    from cqrs_cli.client.queries.trace import trace_messages

    since_ms = time_option("--since", since)
    cli.check_aggregates(*aggregates or ())
    topics = {name: cli.topics(name) for name in aggregates or cli.aggregate_names()}
    with cli.show_spinner(f"searching since {since}") as show_text:
        codecs = {name: aggregate_codec(cli, name) for name in topics}
        result = trace_messages(cli.connection(), topics, searched_id, since_ms, show_text, codecs)
    for name, error in result.missing.items():
        cli.print_note(f"{name}: {cli.with_flags(str(error))}")
    scope_text = searched_text(result, since_ms)
    if not result.messages:
        raise CqrsError(
            f"no correlation, no command and no aggregate has the id {searched_id}: {scope_text}",
            "search further back, with --since 7d; all events of an aggregate:"
            f" cqrs show AGGREGATE {searched_id} --history",
        )
    if result.of_aggregate:
        cli.print_note(
            f"no correlation and no command has the id {searched_id}: it is the id of an aggregate"
        )
    if result.skipped_correlations:
        cli.print_note(
            f"its {result.skipped_correlations:,} correlations are not followed: only its own messages are shown",
            "warning",
        )
    message_tree = lineage(result.messages)
    cli.print_result(trace_document(message_tree, result, since_ms), partial(trace_text, message_tree))
    cli.print_note(scope_text)
