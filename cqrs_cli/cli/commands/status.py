"""`cqrs status`: how far each partition is, and who owns it."""

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple, NoReturn

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, check_sqlalchemy
from cqrs_cli.cli.processes import usable_processes
from cqrs_cli.cli.render.process import process_status_document, process_status_table
from cqrs_cli.cli.render.project import statuses_document, statuses_table
from cqrs_cli.cli.render.status import status_document, status_table
from cqrs_cli.errors import ConfigurationError, UnavailableError, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.core.aggregate.aggregate import Aggregate
    from cqrs_cli.deciding.plan import Partition
    from cqrs_cli.following.processes.load import LoadedProcess
    from cqrs_cli.following.processes.status import SubscriptionStatus
    from cqrs_cli.following.projections.positions import ProjectionStatus
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.ownership.claim import Claim
    from cqrs_cli.status.decided import ClaimLook, PartitionStatus

#: Seconds from one look to the next with `--watch`.
INTERVAL = 1.0


@command(
    app,
    examples=[
        "cqrs status",
        "cqrs status bank_account --watch",
        "cqrs status bank_account --digest -o json",
        "cqrs status --projections sqlite:///projections.db",
    ],
)
def status(
    cli: Cli,
    aggregates: AggregateNames = None,
    with_digest: Annotated[
        bool, typer.Option("--digest", help="Sum up the states on this machine, as replay does.")
    ] = False,
    watching: Annotated[
        bool, typer.Option("--watch", "-w", help="Look again every second, until Ctrl-C.")
    ] = False,
    projections: Annotated[
        str | None,
        typer.Option("--projections", metavar="URL", help="The projections in this database, too."),
    ] = None,
) -> None:
    """Show lag, owner, speed and state of every partition.

    The owner is the run that committed last; its speed is that of now, and takes half a second to see. State is what
    this machine holds of the partition on disk: nothing, where another machine owns it, or states are in memory (the
    setting store). Aggregates without topics are left out, and named as missing in JSON; without any that has them it
    ends with 3. A client's transaction that is left open hides the commands after it: it is named with how to end it.
    So is a command on which workers die, one that its owner on this machine has been deciding for seconds, and what
    owners and processes of this machine wait for, such as a payload.

    Without names it shows the project's processes, too: how far each has reacted, its owner, and the event that
    stopped it, with the way out.

    With --watch a terminal shows one table that changes; elsewhere each look is a table with its time, with -o json a
    line. cqrs top shows more, live.
    """
    from cqrs_cli.status.decided import present_speeds

    if watching and with_digest:
        raise UsageError("--digest reads all states: not every second", "leave out --digest or --watch")
    if watching and projections:
        raise UsageError("--projections is not watched", "watch cqrs project --metrics-address instead")
    names, connection = cli.usable(aggregates), cli.connection()
    processes = [] if aggregates else usable_processes(cli, None)
    seen = _look(cli, connection, names, processes, bool(aggregates), with_digest)
    for name, why in seen.missing.items():
        cli.note(f"{name}: {cli.with_flags(str(why))}")
    if watching:
        _watch(cli, connection, names, processes, seen)
    topics = {name: cli.topics(name) for name in seen.statuses}
    if projections is not None:
        seen = seen._replace(projected=_projected(cli, connection, projections))
    _show(cli, seen, with_digest, present_speeds(connection, topics, seen.claims()))


class _Seen(NamedTuple):
    """One look: the statuses by aggregate, and the aggregates that have no topics."""

    at: float
    statuses: Mapping[str, Sequence["PartitionStatus"]]
    missing: Mapping[str, ConfigurationError]
    processes: Mapping[str, Sequence["SubscriptionStatus"]]
    projected: Sequence["ProjectionStatus"] = ()

    def claims(self) -> "dict[Partition, Claim | None]":
        from cqrs_cli.deciding.plan import Partition

        return {
            Partition(name, part.partition): part.claim
            for name, parts in self.statuses.items()
            for part in parts
        }

    def look(self) -> "ClaimLook":
        from cqrs_cli.status.decided import ClaimLook

        return ClaimLook(self.at, self.claims())


def _look(
    cli: Cli,
    connection: "Connection",
    names: "Mapping[str, Aggregate]",
    processes: "Sequence[LoadedProcess]",
    chosen: bool,
    with_digest: bool = False,
) -> _Seen:
    """The statuses now; raises `ConfigurationError` for missing topics if they were asked for, or all are missing."""
    from cqrs_cli.following.processes.status import process_statuses
    from cqrs_cli.status.decided import partition_statuses

    seen: dict[str, Sequence[PartitionStatus]] = {}
    missing: dict[str, ConfigurationError] = {}
    at = time.monotonic()
    for name in names:
        try:
            seen[name] = partition_statuses(
                connection,
                cli.topics(name),
                cli.settings.state_dir,
                with_digest,
                cli.settings.store == "lmdb",
            )
        except ConfigurationError as error:
            if chosen:
                raise
            missing[name] = error
    if not seen:
        raise next(iter(missing.values()))
    reacting: dict[str, Sequence[SubscriptionStatus]] = {}
    where = cli.settings.topic_prefix, cli.settings.state_dir
    for one in processes:
        try:
            reacting[one.name] = process_statuses(connection, one, *where)
        except ConfigurationError as error:
            missing[f"process {one.name}"] = error
    return _Seen(at, seen, missing, reacting)


def _projected(cli: Cli, connection: "Connection", url: str) -> "list[ProjectionStatus]":
    check_sqlalchemy()
    from cqrs_cli.following.projections.database import parse_database
    from cqrs_cli.following.projections.positions import projection_statuses

    return projection_statuses(connection, parse_database(url, cli.settings.root, "--projections"))


def _show(cli: Cli, seen: _Seen, with_digest: bool, speeds: "Mapping[Partition, float]") -> None:
    store = cli.settings.store
    document = status_document(seen.statuses, list(seen.missing), with_digest, speeds, store)
    document["processes"] = process_status_document(seen.processes)
    if seen.projected:
        document["projections"] = statuses_document(seen.projected)
    cli.result(document, partial(_tables, seen, with_digest, speeds, store))


def _tables(
    seen: _Seen, with_digest: bool, speeds: "Mapping[Partition, float]", store: str
) -> "RenderableType":
    from rich.console import Group

    table = status_table(seen.statuses, with_digest, speeds, store)
    tables: list[RenderableType] = [table]
    if seen.processes:
        subscriptions = [part for parts in seen.processes.values() for part in parts]
        tables += ["", process_status_table(subscriptions)]
    if seen.projected:
        tables += ["", statuses_table(seen.projected)]
    return Group(*tables)


def _watch(
    cli: Cli,
    connection: "Connection",
    names: "Mapping[str, Aggregate]",
    processes: "Sequence[LoadedProcess]",
    before: _Seen,
) -> NoReturn:
    """Look every second, for ever. Without a broker it says so, and looks again."""
    from cqrs_cli.status.decided import commit_speeds

    live = _Live(cli)
    try:
        while True:
            time.sleep(max(0.0, before.at + INTERVAL - time.monotonic()))
            try:
                seen = _look(cli, connection, names, processes, chosen=False)
            except UnavailableError as error:
                cli.note(str(error))
                before = before._replace(at=time.monotonic())
                continue
            live.show(seen, commit_speeds(before.look(), seen.look()))
            before = seen
    finally:
        live.close()


class _Live:
    """Shows one look after the other: in the place of the one before on a terminal, below it elsewhere."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        self._live = None
        if cli.output == "text" and sys.stdout.isatty():
            from rich.live import Live

            self._live = Live(console=cli.stdout, auto_refresh=False)
            self._live.start()

    def show(self, seen: _Seen, speeds: "Mapping[Partition, float]") -> None:
        cli = self._cli
        if self._live is not None:
            self._live.update(_tables(seen, False, speeds, cli.settings.store), refresh=True)
            return
        if cli.output == "text":
            cli.line(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}".encode())
        _show(cli, seen, False, speeds)
        cli.flush()

    def close(self) -> None:
        """Leave the last table where it is, and the cursor below it."""
        if self._live is not None:
            self._live.stop()
