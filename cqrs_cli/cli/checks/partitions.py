"""The doctor's check of the partitions. It reports the remarks of `cqrs status` as warnings."""

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from cqrs_cli.cli.context import Cli

if TYPE_CHECKING:
    from cqrs_cli.doctor.check import Check
    from cqrs_cli.following.processes.load import LoadedProcess
    from cqrs_cli.settings.settings import Settings
    from cqrs_cli.status.rates import StatusSnapshot

#: The name of the check.
_CHECK_NAME = "partitions"


def check_partitions(cli: Cli, settings: "Settings") -> "Iterator[Check]":
    """Poll all partitions once. Other checks report the errors that prevent the poll."""
    from cqrs_cli.doctor.check import run_check
    from cqrs_cli.errors import CqrsError
    from cqrs_cli.status.reader import StatusReader

    topics = {name: cli.topics(name) for name in cli.aggregate_names()}
    if not topics:
        return
    with suppress(CqrsError):
        reader = StatusReader(
            cli.connection(start_broker=False),
            topics,
            settings.state_dir,
            _processes(settings),
            prefix=settings.topic_prefix,
        )
        with closing(reader):
            snapshot = reader.poll_statuses()
        yield from run_check(_CHECK_NAME, lambda: partition_checks(snapshot))


def _processes(settings: "Settings") -> "Iterator[LoadedProcess]":
    """Yield the processes whose code can be loaded."""
    from cqrs_cli.errors import CqrsError
    from cqrs_cli.following.processes.load import load_process, process_names

    for name in process_names(settings.root):
        with suppress(CqrsError):
            yield load_process(name, settings.root, settings.aggregates)


def partition_checks(snapshot: "StatusSnapshot") -> "Iterator[Check]":
    """Yield a warning for each remark, or a summary if there is no remark.

    Transactions that hide commands are left out: another check reports them.
    """
    from msgspec.structs import replace

    from cqrs_cli.doctor.check import ok, warn
    from cqrs_cli.formatting import counted
    from cqrs_cli.status.partition import silent_owners

    has_warnings = False
    for text in silent_owners(snapshot.statuses):
        has_warnings = True
        yield warn(_CHECK_NAME, text, "if it was killed, start a run: cqrs run")
    for status in snapshot.statuses:
        for remark in replace(status, hiding_transaction=None).remarks():
            problem, _, remedy = remark.partition("; ")
            has_warnings = True
            yield warn(_CHECK_NAME, f"{status.label}: {problem}", remedy)
    if not has_warnings:
        lag = sum(status.lag or 0 for status in snapshot.statuses)
        ownerless_count = sum(not status.is_owned for status in snapshot.statuses)
        yield ok(
            _CHECK_NAME,
            f"{counted(len(snapshot.statuses), 'partition')}, {ownerless_count} without an owner; lag {lag:,}",
        )
