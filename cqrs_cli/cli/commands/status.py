"""`cqrs status`: show the lag and the owner of each partition."""

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, option
from cqrs_cli.cli.processes import usable_processes
from cqrs_cli.cli.render.status import status_text
from cqrs_cli.extras import require

if TYPE_CHECKING:
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.status.partition import PartitionStatus
    from cqrs_cli.status.rates import StatusSnapshot


@command(
    app,
    examples=["cqrs status", "cqrs status bank_account --digest -o json"],
)
def status(
    cli: Cli,
    aggregates: AggregateNames = None,
    with_digest: Annotated[
        bool, option("--digest", "Print the digest of the states on this machine, too.")
    ] = False,
    projections: Annotated[
        str | None, option("--projections URL", "Show the projections in this database, too.")
    ] = None,
) -> None:
    """Show lag, owner, speed and state of each partition.

    Without names it also shows process managers. The state comes from the shard on this machine. Below the table it
    reports commands that may have killed a worker, open transactions that hide commands, stopped process managers and
    the progress of a repartitioning, each with the remedy.

    The command exits with 3 if no aggregate has topics. cqrs top shows the table live. docs/operations.md explains the
    columns.
    """
    from cqrs_cli.cli.clocks import warn_of_clock_difference
    from cqrs_cli.status.reader import StatusReader

    aggregates_by_name, connection = cli.usable_aggregates(aggregates), cli.connection(start_broker=False)
    reader = StatusReader(
        connection,
        {name: cli.topics(name) for name in aggregates_by_name},
        cli.settings.state_dir,
        [] if aggregates else usable_processes(cli, None),
        prefix=cli.settings.topic_prefix,
    )
    for name, error in reader.missing.items():
        if aggregates:
            raise error
        cli.print_note(f"{name}: {cli.with_flags(str(error))}")
    warn_of_clock_difference(cli, connection)
    with closing(reader):
        aggregates_for_digests = aggregates_by_name if with_digest else {}
        snapshot = reader.with_states(reader.poll_with_rates(), cli.settings.store, aggregates_for_digests)
    if projections is not None:
        snapshot = snapshot._replace(
            statuses=(*snapshot.statuses, *_projection_statuses(cli, connection, projections))
        )
    _print_snapshot(cli, snapshot, with_digest)


def _projection_statuses(cli: Cli, connection: "Connection", url: str) -> "list[PartitionStatus]":
    require("projections", "--projections")
    from cqrs_cli.following.projections.database import parse_database
    from cqrs_cli.status.projections import projection_statuses

    return projection_statuses(connection, parse_database(url, cli.settings.root, "--projections"))


def _print_snapshot(cli: Cli, snapshot: "StatusSnapshot", with_digest: bool = False) -> None:
    from cqrs_cli.status.document import status_document

    store = cli.settings.store
    cli.print_result(
        status_document(snapshot, store, with_digest),
        lambda: status_text(snapshot, store, with_digest, width=cli.stdout.width),
    )
