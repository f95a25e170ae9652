"""How far the proof of a partition is: it reads one log after the other."""

from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import TELL_EVERY, TaskReport, TaskReporter


class ProofTeller(TaskReporter):
    """Tells the driver how much of a partition's logs is read."""

    def __init__(self, to: Address | None, partition: int, every: float = TELL_EVERY) -> None:
        self._partition = partition
        self.records = 0  # that were read
        self._whole: int | None = None
        self._logs = self._offsets = 0  # that were read: of the logs before, and of the present one
        super().__init__(to, every)

    def begin(self, whole: int) -> None:
        """Say that this number of offsets is to be read, from the first one on."""
        self._whole, self._logs, self._offsets, self.records = whole, 0, 0, 0

    def read(self, records: int, offsets: int) -> None:
        """Say that some more records of a log were read, this number of offsets of it in all."""
        self.records += records
        self._offsets = offsets
        self.tell()

    def end(self, offsets: int) -> None:
        """Say that a log was read to its end, this number of offsets in all."""
        self._logs, self._offsets = self._logs + offsets, 0
        self.tell()

    def word(self) -> TaskReport:
        return TaskReport(self._partition, self._logs + self._offsets, self.records, self._whole)
