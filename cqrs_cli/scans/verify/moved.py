"""Check that each command that was forwarded to another partition, because its key had moved, has arrived there."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.proof.findings import Report
from cqrs_cli.proof.moved import lost


class LostCommand(NamedTuple):
    """A forwarded command that is missing in the other partition: position of its `MOVED` outcome, and a message."""

    partition: int
    offset: int
    what: str


def find_lost(log: PartitionLog, reports: Mapping[int, Report], tolerance: int) -> Iterator[LostCommand]:
    """Compare the tallies of forwarded and received commands. The logs are read again only if tallies differ.

    `log`: of any partition. `tolerance`: the maximal difference of two brokers' clocks, ms.
    """
    for source, report in reports.items():
        for to, moved in report.moved.items():
            there = reports.get(to, Report()).forwarded.get(source)
            if moved != there:
                for offset, what in _named(log, source, to, tolerance):
                    yield LostCommand(source, offset, what)


def _named(log: PartitionLog, source: int, to: int, tolerance: int) -> Iterator[tuple[int, str]]:
    """Return the missing commands. Outcomes are read before commands, because a visible outcome is committed together
    with the forwarded command.
    """
    outcomes, commands = replace(log, partition=source), replace(log, partition=to)
    told = list(chain.from_iterable(outcomes.read("outcomes", *outcomes.bounds("outcomes"))))
    start, end = commands.bounds("commands", "read_uncommitted")
    since = None
    if start:
        first = commands.first_record("commands", start, end)
        since = 2**63 if first is None else first.timestamp + tolerance
    return lost(source, to, told, chain.from_iterable(commands.read("commands", start, end)), since)
