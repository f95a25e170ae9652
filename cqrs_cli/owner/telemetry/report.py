"""Reports: an owner's measures on their way to the driver, as signed datagrams.

Each holds sums since the task began, so that a lost one costs nothing. They are shown to people and Prometheus; nothing
is decided by them, and a driver that hears nothing goes on.
"""

import hmac
import socket
from contextlib import suppress
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from cqrs_cli.owner.telemetry.measures import Folding, Measures

#: Bytes of a signature, which stands before the report.
_SIGNATURE = 32

#: The notes of a report, and the characters of each, so that it fits a datagram.
_NOTES = 20
_NOTE = 1000


@dataclass(frozen=True, slots=True)
class Address:
    """The address that takes the reports of a run, and the key that signs them. It travels with the plan."""

    host: str
    port: int
    key: bytes

    def __repr__(self) -> str:
        return f"Address({self.host!r}, {self.port})"  # the key is a secret


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
    aborted: int = 0
    restarts: int = 0
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
        measures.aborted,
        measures.restarts,
        shard_bytes,
        [note[:_NOTE] for note in notes[:_NOTES]],
    )


_decoder = msgspec.msgpack.Decoder(OwnerReport)


def sign_report(report: OwnerReport, key: bytes) -> bytes:
    """The datagram of a report."""
    body = msgspec.msgpack.encode(report)
    return hmac.digest(key, body, "sha256") + body


def read_report(datagram: bytes, key: bytes) -> OwnerReport | None:
    """The report in a datagram; None for any other datagram."""
    signature, body = datagram[:_SIGNATURE], datagram[_SIGNATURE:]
    if not hmac.compare_digest(hmac.digest(key, body, "sha256"), signature):
        return None
    try:
        return _decoder.decode(body)
    except ValueError:  # msgspec's errors are: another version of this code
        return None


class ReportSender:
    """Sends reports to a driver. Nothing happens where that is not possible."""

    def __init__(self, to: Address) -> None:
        self._key = to.key
        self._at: tuple[str, int] | None = None
        with suppress(
            OSError
        ):  # looked up once: a name server that is slow must not hold up the task each time
            self._at = socket.gethostbyname(to.host), to.port
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def send(self, report: OwnerReport) -> None:
        """Hand a datagram to the kernel, without waiting."""
        if self._at is not None:
            with suppress(OSError):  # the next one has the same sums
                self._socket.sendto(sign_report(report, self._key), self._at)

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()
