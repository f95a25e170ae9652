"""Reports: an owner's measures, which are sent to the driver as signed datagrams.

Each report contains sums since the task began, so a lost report does no harm. People and Prometheus see the reports.
The driver uses them in two ways: an owner that is building its shard does not count as missing, and a task whose
reports stop is submitted again.
"""

import msgspec
from msgspec import Struct

from cqrs_cli.deciding.measures import FoldProgress, Measures


class OwnerReport(Struct, frozen=True, array_like=True):
    """The measures of one partition. `number` rises with each report of an attempt."""

    aggregate: str
    partition: int
    submission: int
    attempt: int
    number: int
    step: str  # one of `measures.STEPS`
    folding: FoldProgress | None = None
    reasons: dict[str, int] = {}  # reason → commands deferred, rejected or failed for it
    latency: tuple[list[int], float] = ([], 0.0)  # histogram counts, and the sum in seconds
    batches: tuple[list[int], float] = ([], 0.0)  # histogram counts, and the total of commands
    counts: dict[str, int] = {}  # the counters in `measures.COUNTERS`
    shard_bytes: int = 0

    @property
    def order(self) -> tuple[int, int, int]:
        """The order of a partition's reports: a later report has a greater value."""
        return self.submission, self.attempt, self.number


def compose_report(
    partition: tuple[str, int],
    order: tuple[int, int, int],
    measures: Measures,
    shard_bytes: int,
) -> OwnerReport:
    """Return the report of a partition's current measures. `partition`: (aggregate, number). `order`: see
    `OwnerReport.order`.
    """
    latency, batches = measures.latency, measures.batches
    return OwnerReport(
        *partition,
        *order,
        measures.step,
        measures.folding,
        dict(measures.reasons),
        (list(latency.counts), latency.total),
        (list(batches.counts), batches.total),
        dict(measures.counts),
        shard_bytes,
    )


_decoder = msgspec.msgpack.Decoder(OwnerReport)


def encode_report(report: OwnerReport) -> bytes:
    """Return the body of a report's datagram."""
    return msgspec.msgpack.encode(report)


def decode_report(body: bytes) -> OwnerReport | None:
    """Return the report in a datagram's body; None for any other body."""
    try:
        return _decoder.decode(body)
    except ValueError:  # msgspec's errors are ValueErrors: the sender has another version
        return None
