"""`cqrs trace`: show all messages of a correlation or a command."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import SpanOutput, argument, complete_aggregate, option, time_option
from cqrs_cli.errors import ConfigurationError, CqrsError, UnavailableError
from cqrs_cli.extras import require
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cqrs_cli.client.queries.messages import LinkedMessage
    from cqrs_cli.kafka.topics.topics import Topics


@command(
    app,
    examples=["cqrs trace order-9", "cqrs trace 0198f2c4-7c1e-7b8a-9d55-0d6f3a1b2c3d --since 7d"],
)
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
    output: SpanOutput = "text",
) -> None:
    """Show the commands, outcomes, events and dead letters of a correlation, over all aggregates.

    ID is the id of a correlation, a command, or an aggregate: the command then shows the aggregate's correlations. An
    outcome is below its command, and a command is below the event that caused it.

    The command reads all records since --since, prints their number, and exits with 1 if it finds nothing. -o otlp
    sends the messages as spans to OTEL_EXPORTER_OTLP_ENDPOINT.
    """
    from cqrs_cli.cli.aggregate_codec import aggregate_codec
    from cqrs_cli.cli.render.queries.trace import searched_scope_text, trace_text
    from cqrs_cli.client.queries.message_trees import message_trees
    from cqrs_cli.client.queries.trace import trace_messages
    from cqrs_cli.client.queries.trace_document import trace_document
    from cqrs_cli.following.processes.load import process_names
    from cqrs_cli.following.processes.skip import read_skips

    if output == "otlp":
        _require_collector()
    since_ms = time_option("--since", since)
    cli.check_aggregates(*aggregates or ())
    topics = {name: cli.topics(name) for name in aggregates or cli.aggregate_names()}
    with cli.show_spinner(f"searching since {since}") as show_text:
        codecs = {name: aggregate_codec(cli, name) for name in topics}
        result = trace_messages(cli.connection(), topics, searched_id, since_ms, show_text, codecs)
    for name, error in result.missing_topic_errors.items():
        cli.print_note(f"{name}: {cli.with_flags(str(error))}")
    scope_text = searched_scope_text(result, since_ms)
    if not result.messages:
        raise CqrsError(
            f"no correlation, no command and no aggregate has the id {searched_id}: {scope_text}",
            "search further back, with --since 7d; all events of an aggregate:"
            f" cqrs show AGGREGATE {searched_id} --history",
        )
    if result.is_aggregate_id:
        cli.print_note(
            f"no correlation and no command has the id {searched_id}: it is the id of an aggregate"
        )
    if result.skipped_correlations:
        cli.print_note(
            f"its {result.skipped_correlations:,} correlations are not followed: only its own messages are shown",
            "warning",
        )
    if output == "otlp":
        cli.print_result({}, _send_spans(result.messages, topics))
        cli.print_note(scope_text)
        return
    skips = read_skips(cli.connection(), process_names(cli.settings.root), cli.settings.topic_prefix)
    trees = message_trees(result.messages, skips)
    cli.print_result(trace_document(trees, result, since_ms), partial(trace_text, trees))
    cli.print_note(scope_text)


def _require_collector() -> None:
    """Raise `ConfigurationError` if spans cannot be sent."""
    from cqrs_cli.telemetry.otel.endpoint import endpoint
    from cqrs_cli.telemetry.otel.export_settings import check_export_settings

    require("otel", "cqrs trace -o otlp")
    if endpoint() is None:
        raise ConfigurationError(
            "cqrs trace -o otlp: no collector is configured",
            "set OTEL_EXPORTER_OTLP_ENDPOINT, for example to http://localhost:4318",
        )
    check_export_settings()


def _send_spans(messages: "list[LinkedMessage]", topics: "Mapping[str, Topics]") -> str:
    """Send the spans of messages, and return the result; raises `UnavailableError`."""
    from cqrs_cli.client.queries.trace_spans import trace_spans
    from cqrs_cli.telemetry.otel.endpoint import endpoint_text
    from cqrs_cli.telemetry.otel.exporter import QueuedExporter

    spans = trace_spans(messages, topics)
    if not spans:
        return "there are no spans to send: none of the commands found is decided"
    if not QueuedExporter().export_now(spans):
        raise UnavailableError(
            f"the collector did not take the spans: {endpoint_text()}",
            "check the address and the log of the collector; spans that are sent again have the same ids",
        )
    traces = sorted({f"{span.trace.trace_id:032x}" for span in spans})
    return f"sent {counted(len(spans), 'span')} to {endpoint_text()}: trace {', '.join(traces)}"
