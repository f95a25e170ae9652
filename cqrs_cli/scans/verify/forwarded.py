"""Checks that each forwarded command has arrived unaltered. A command is forwarded if its key has moved."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.proof.findings import Report
from cqrs_cli.proof.fingerprints import FingerprintCheck
from cqrs_cli.proof.forwarded_commands import missing_commands


class LostCommand(NamedTuple):
    """A forwarded command that is missing in the target partition, or has other content there."""

    partition: int  # partition of the `MOVED` outcome
    offset: int  # offset of the `MOVED` outcome
    problem: str  # the error message


def find_lost_commands(
    log: PartitionLog,
    reports: Mapping[int, Report],
    tolerance: int,
    load_fingerprint_check: Callable[[], FingerprintCheck],
) -> Iterator[LostCommand]:
    """Compare the tallies of forwarded and received commands. Only if tallies differ, read the logs again.

    `reports`: partition → verification report. `log`: the logs of any partition of the aggregate. `tolerance`: the
    maximal difference of two brokers' clocks, in ms. `load_fingerprint_check` returns the function that checks a
    command's fingerprint; it is called only if tallies differ.
    """
    for source, report in reports.items():
        for target, forwarded in report.forwarded_to.items():
            received = reports.get(target, Report()).received_from.get(source)
            if forwarded != received:
                for offset, problem in _find_differences(
                    log, source, target, tolerance, load_fingerprint_check()
                ):
                    yield LostCommand(source, offset, problem)


def _find_differences(
    log: PartitionLog, source: int, target: int, tolerance: int, fits: FingerprintCheck
) -> Iterator[tuple[int, str]]:
    """Return the missing and the altered commands, as (offset of the `MOVED` outcome, message).

    Outcomes are read before the target's commands. A transaction commits a `MOVED` outcome and the forwarded command
    together, so the command of each outcome that was read is visible.
    """
    source_log, target_log = replace(log, partition=source), replace(log, partition=target)
    outcomes = list(chain.from_iterable(source_log.read("outcomes", *source_log.bounds("outcomes"))))
    originals = chain.from_iterable(source_log.read("commands", *source_log.bounds("commands")))
    start, end = target_log.bounds("commands", "read_uncommitted")
    complete_since = None
    if start:
        first_record = target_log.first_record("commands", start, end)
        complete_since = 2**63 if first_record is None else first_record.timestamp + tolerance
    received = chain.from_iterable(target_log.read("commands", start, end))
    return missing_commands(source, target, outcomes, originals, received, complete_since, fits)
