"""`cqrs show`: show the state of one aggregate, folded from its events."""

from contextlib import closing, nullcontext
from functools import partial
from itertools import chain, islice
from typing import Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, argument, option
from cqrs_cli.cli.positions import read_positions
from cqrs_cli.cli.render.show import show_text, versions_result
from cqrs_cli.errors import CqrsError, UsageError

#: Number of records above which a spinner is shown while they are read.
SPINNER_THRESHOLD = 200_000


@command(
    app,
    examples=["cqrs show bank_account acc-42 --at 2h --history", "cqrs show bank_account"],
)
def show(
    cli: Cli,
    aggregate: AggregateName,
    id: Annotated[
        str | None, argument("ID", "The aggregate's id. Default: list all ids with their versions.")
    ] = None,
    at: Annotated[
        str | None,
        option(
            "VERSION|TIME|@FILE",
            "Show an earlier state: at a version, a time (2026-11-21T01:02:03Z, 2026-11-21, 2h ago), or offsets.",
        ),
    ] = None,
    history: Annotated[bool, option("--history", "Show the aggregate's events, too.")] = False,
) -> None:
    """Show the state and the version of an aggregate, folded from its committed events, or list all ids.

    --at TIME shows the last version up to this time; before the first event, the initial state with version 0. --at
    @FILE shows the state before the offsets in FILE: an offset for each partition, {"0": 1200, "1": 0}, or a
    certificate (cqrs certificate).

    Without a keyring, personal fields have redacted values. The command exits with 1 for an id without events.
    """
    from cqrs_cli.client import history as histories
    from cqrs_cli.client.aggregate_logs import find_ranges, read_records
    from cqrs_cli.client.codecs import decrypting_codec

    topics = cli.topics(aggregate)
    if id is None:
        from cqrs_cli.client.queries.versions import read_versions

        if at is not None or history:
            raise UsageError("ID is missing", f"leave out --at and --history to list the ids of {aggregate}")
        cli.check_aggregates(aggregate)
        with cli.show_spinner("reading the events") if cli.is_live else nullcontext():
            versions = read_versions(cli.connection(), topics)
        cli.print_result(*versions_result(aggregate, versions))
        return
    positions = read_positions("--at", at, topics.events)
    state_filter = histories.parse_at(at if positions is None else None)
    loaded_aggregate = cli.aggregate(aggregate)
    key = id.encode(errors="surrogateescape")
    connection = cli.connection()
    ranges = find_ranges(connection, topics, key, cli.settings.partitioner, positions)
    count = sum(key_range.end - key_range.start for key_range in ranges)
    with (
        cli.show_spinner(f"reading {count:,} events") if count > SPINNER_THRESHOLD else nullcontext(),
        closing(decrypting_codec(connection, topics, loaded_aggregate, id)) as codec,
    ):
        records = read_records(connection, key, ranges, codec)
        first_records = list(islice(records, 1))
        if not first_records and positions is None:
            raise CqrsError(
                f"no {aggregate} has the id {id!r}: its version is 0",
                f"ids are case-sensitive; list them: cqrs show {aggregate}",
            )
        aggregate_history = histories.fold_history(
            loaded_aggregate, chain(first_records, records), state_filter
        )
    if at is not None and at.isdigit() and aggregate_history.version < int(at):
        raise UsageError(
            f"{aggregate} {id} is at version {aggregate_history.version}, not {at}",
            "leave --at out to see it",
        )
    cli.print_result(
        histories.history_document(aggregate, id, aggregate_history, events=history),
        partial(show_text, aggregate, id, aggregate_history, history),
    )
