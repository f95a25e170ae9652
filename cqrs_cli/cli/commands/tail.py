"""`cqrs tail`: print the records of one of an aggregate's topics."""

from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, argument, option
from cqrs_cli.cli.output import json_line
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError, UsageError
from cqrs_cli.formatting import did_you_mean

if TYPE_CHECKING:
    from cqrs_cli.kafka.admin.topic_identity import TopicIdentity
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.kafka.tailing import PartitionRecord


@command(
    app,
    examples=[
        "cqrs tail bank_account events --aggregate-id acc-42",
        "cqrs tail bank_account outcomes -f --status rejected",
    ],
)
def tail(
    cli: Cli,
    aggregate: AggregateName,
    kind: Annotated[
        Literal["commands", "events", "outcomes", "dead-letters"],
        argument("TOPIC", "commands, events, outcomes or dead-letters."),
    ],
    start: Annotated[
        str | None,
        option(
            "--from WHERE",
            "Start at beginning, end, an offset, or a time: 2026-11-21T01:02:03Z, 2026-11-21 (UTC), 10m ago.",
        ),
    ] = None,
    count: Annotated[
        int | None, option("-n --lines N", "Print the last N records; with --from the first N.", min=0)
    ] = None,
    follow: Annotated[bool, option("-f --follow", "Print new records until stopped.")] = False,
    aggregate_id: Annotated[str | None, option("--aggregate-id ID", "Only records with this key.")] = None,
    types: Annotated[
        list[str] | None, option("--type NAME", "Only this command or event; repeatable.")
    ] = None,
    statuses: Annotated[
        list[str] | None, option("--status STATUS", "Only outcomes with this status; repeatable.")
    ] = None,
    reasons: Annotated[
        list[str] | None,
        option("--reason REASON", "Only outcomes and dead letters with this reason; repeatable."),
    ] = None,
    partitions: Annotated[
        list[int] | None, option("--partition P", "Only this partition; repeatable.", min=0)
    ] = None,
) -> None:
    """Print the committed records of a topic: the existing records, or with --follow the new records.

    With --follow and -n N it first prints the last N existing records. With --from and -n N it prints the first N
    records from there, then exits.

    Records of several partitions are sorted by their timestamps, except new records with --follow. An offset in --from
    applies to each partition. If a followed topic is deleted or recreated, the command exits with 5.
    """
    from cqrs_cli.cli.aggregate_codec import aggregate_codec
    from cqrs_cli.cli.record_filter import record_filter
    from cqrs_cli.kafka import readers, tailing
    from cqrs_cli.kafka.tailing import Origin

    cli.check_aggregates(aggregate)
    try:
        origin = Origin.parse(start or ("end" if follow and count is None else "beginning"))
    except ValueError as error:
        raise UsageError(f"--from: {error}", "give beginning, end, an offset or a time") from None
    topics = cli.topics(aggregate)
    topic = topics.name(kind)
    key = None if aggregate_id is None else aggregate_id.encode(errors="surrogateescape")
    matches = record_filter(kind, aggregate, key, types or (), statuses or (), reasons or ())
    if types:
        _warn_of_unknown_types(cli, aggregate, types)
    # Until a repartitioning, the events of a key are in one partition. Commands, outcomes and dead letters of the key
    # may be in any partition, because a client may have sent the command to a wrong partition.
    connection = cli.connection()
    is_single_partition = (
        kind == "events" and key is not None and not readers.topic_exists(connection, topics.lineage)
    )
    partitioner = cli.settings.partitioner if is_single_partition else "none"
    codec = aggregate_codec(cli, aggregate) if kind == "events" else connection.payload_codec()
    decode_records = partial(tailing.decode_in_order, codec, topic)
    bounds = tailing.tail_bounds(connection, topic, origin, key, partitioner, partitions)
    if count is not None and start is None:
        limit = None
        printed_count = _print_records(
            cli, decode_records(tailing.last_records(connection, topic, bounds, matches, count))
        )
    else:
        limit = count
        first_records = islice(tailing.merge_by_time(connection, topic, bounds, matches), count)
        printed_count = _print_records(cli, decode_records(first_records))
    if follow:
        ends = {partition: end for partition, (_, end) in bounds.items()}
        for batch in tailing.follow_records(
            connection, topic, ends, matches, cli.print_note, _track_topic(connection, topic)
        ):
            new_records = batch if limit is None else batch[: limit - printed_count]
            printed_count += _print_records(cli, decode_records(new_records))
            if printed_count == limit:
                return


def _track_topic(connection: "Connection", topic: str) -> "TopicIdentity":
    """Return a check that raises an error once the topic was deleted or recreated."""
    from cqrs_cli.kafka.admin.topic_identity import topic_ids, track_topics

    def topic_error(name: str, is_recreated: bool) -> CqrsError:
        change = "deleted and recreated" if is_recreated else "deleted"
        return ContradictionError(f"{name} was {change} while it was read", "find out why, then start again")

    return track_topics(connection, topic_ids(connection, [topic]), topic_error)


def _warn_of_unknown_types(cli: Cli, aggregate: str, types: list[str]) -> None:
    """Warn of types that the code does not know. Stored records may still have such a type."""
    from cqrs_cli.core.reserved import RESERVED_COMMANDS

    try:
        aggregate_code = cli.aggregate(aggregate)
    except ConfigurationError:  # records can be printed without the aggregate's code
        return
    wire_types = [*aggregate_code.commands, *aggregate_code.decode_event]
    known_types = {wire_type.removeprefix(f"{aggregate}.") for wire_type in wire_types} | {*RESERVED_COMMANDS}
    for name in types:
        short_name = name.removeprefix(f"{aggregate}.").partition(".")[0] if "cqrs." not in name else name
        if short_name not in known_types:
            note, hint = (
                f"--type {name}: the code has no such command or event",
                did_you_mean(short_name, known_types),
            )
            cli.print_note(f"{note}; {hint}" if hint else note, "warning")


def _print_records(cli: Cli, records: Iterable["PartitionRecord"]) -> int:
    """Print and flush the records; return their number."""
    from cqrs_cli.cli.render.record import record_document, record_line

    printed_count = 0
    for partition, record in records:
        if cli.output == "json":
            cli.write_line(json_line(record_document(partition, record)))
        else:
            cli.write_line(record_line(partition, record).encode())
        printed_count += 1
    cli.flush()
    return printed_count
