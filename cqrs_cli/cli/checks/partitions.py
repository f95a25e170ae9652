"""The doctor's check of the partitions: the remarks of `cqrs status`."""

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from cqrs_cli.cli.context import Cli

if TYPE_CHECKING:
    from cqrs_cli.doctor.check import Check
    from cqrs_cli.following.processes.load import LoadedProcess
    from cqrs_cli.settings.settings import Settings
    from cqrs_cli.status.rates import StatusSnapshot

#: The name of the check.
_NAME = "partitions"


def check_places(cli: Cli, settings: "Settings") -> "Iterator[Check]":
    """Poll all partitions once. Other checks report the errors that prevent the poll."""
    from cqrs_cli.doctor.check import run_check
    from cqrs_cli.errors import CqrsError
    from cqrs_cli.status.reader import StatusReader

    topics = {name: cli.topics(name) for name in cli.aggregate_names()}
    if not topics:
        return
    with suppress(CqrsError):
        reader = StatusReader(
            cli.connection(start=False),
            topics,
            settings.state_dir,
            _processes(settings),
            prefix=settings.topic_prefix,
        )
        with closing(reader):
            look = reader.poll()
        yield from run_check(_NAME, lambda: judge_places(look))


def _processes(settings: "Settings") -> "Iterator[LoadedProcess]":
    """Yield the processes whose code can be loaded."""
    from cqrs_cli.errors import CqrsError
    from cqrs_cli.following.processes.load import load_process, process_names

    for name in process_names(settings.root):
        with suppress(CqrsError):
            yield load_process(name, settings.root, settings.aggregates)


def judge_places(look: "StatusSnapshot") -> "Iterator[Check]":
    """Yield a warning for each remark, else a summary. Another check reports transactions that hide commands."""
    from cqrs_cli.doctor.check import ok, warn
    from cqrs_cli.formatting import counted

    warned = False
    for place in look.statuses:
        for remark in replace(place, hidden_by=None).remarks():
            what, _, way_out = remark.partition("; ")
            warned = True
            yield warn(_NAME, f"{place.label}: {what}", way_out)
    if not warned:
        lag, unowned = (
            sum(place.lag or 0 for place in look.statuses),
            [not one.owned for one in look.statuses],
        )
        yield ok(
            _NAME, f"{counted(len(look.statuses), 'partition')}, {sum(unowned)} without an owner; lag {lag:,}"
        )
