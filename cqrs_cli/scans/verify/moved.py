"""The commands that were forwarded to another partition, since their keys had moved: each must be there."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.proof.findings import Report
from cqrs_cli.proof.moved import lost


class LostCommand(NamedTuple):
    """A command that has moved and did not come there: the outcome that says so, and what is wrong."""

    partition: int
    offset: int
    what: str


def find_lost(log: PartitionLog, reports: Mapping[int, Report], tolerance: int) -> Iterator[LostCommand]:
    """Compare what partitions gave away with what others got. Only where sums differ the logs are read once more.

    `log`: any partition's. `tolerance`: how much two brokers' clocks may differ, ms.
    """
    for source, report in reports.items():
        for to, moved in report.moved.items():
            there = reports.get(to, Report()).forwarded.get(source)
            if moved != there:
                for offset, what in _named(log, source, to, tolerance):
                    yield LostCommand(source, offset, what)


def _named(log: PartitionLog, source: int, to: int, tolerance: int) -> Iterator[tuple[int, str]]:
    """Outcomes are read before commands: what a visible one says has been committed on both sides."""
    outcomes, commands = replace(log, partition=source), replace(log, partition=to)
    told = list(chain.from_iterable(outcomes.read("outcomes", *outcomes.bounds("outcomes"))))
    start, end = commands.bounds("commands", "read_uncommitted")
    since = None
    if start:
        first = commands.first_record("commands", start, end)
        since = 2**63 if first is None else first.timestamp + tolerance
    return lost(source, to, told, chain.from_iterable(commands.read("commands", start, end)), since)
