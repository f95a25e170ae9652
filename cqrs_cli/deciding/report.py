"""Reports: an owner's measures on their way to the driver, as signed datagrams.

Each holds sums since the task began, so that a lost one costs nothing. They are shown to people and Prometheus; nothing
is decided by them, and a driver that hears nothing goes on.
"""

import msgspec
from msgspec import Struct

from cqrs_cli.deciding.measures import Folding, Measures

#: The notes of a report, and the characters of each, so that it fits a datagram.
_NOTES = 20
_NOTE = 1000


class OwnerReport(Struct, frozen=True, array_like=True):
    """The measures of one partition. `number` rises from report to report of an attempt."""

    aggregate: str
    partition: int
    submission: int
    attempt: int
    number: int
    step: str
    folding: Folding | None = None
    reasons: dict[str, int] = {}
    latency: tuple[list[int], float] = ([], 0.0)  # counts, and the sum in seconds
    batches: tuple[list[int], float] = ([], 0.0)  # counts, and the commands in all
    counts: dict[str, int] = {}
    shard_bytes: int = 0
    notes: list[str] = []

    @property
    def order(self) -> tuple[int, int, int]:
        """A later report of the partition has a greater one."""
        return self.submission, self.attempt, self.number


def compose_report(
    place: tuple[str, int],
    order: tuple[int, int, int],
    measures: Measures,
    shard_bytes: int,
    notes: list[str],
) -> OwnerReport:
    """The report of a partition's measures as they are now."""
    latency, batches = measures.latency, measures.batches
    return OwnerReport(
        *place,
        *order,
        measures.step,
        measures.folding,
        dict(measures.reasons),
        (list(latency.counts), latency.total),
        (list(batches.counts), batches.total),
        dict(measures.counts),
        shard_bytes,
        [note[:_NOTE] for note in notes[:_NOTES]],
    )


_decoder = msgspec.msgpack.Decoder(OwnerReport)


def encode_report(report: OwnerReport) -> bytes:
    """The body of a report's datagram."""
    return msgspec.msgpack.encode(report)


def decode_report(body: bytes) -> OwnerReport | None:
    """The report in a datagram's body; None for any other body."""
    try:
        return _decoder.decode(body)
    except ValueError:  # msgspec's errors are: another version of this code
        return None
