"""Findings about erased aggregates in a topic: records that will be deleted by themselves, and violations."""

from dataclasses import dataclass
from typing import NamedTuple

#: As a time in ms: the topic keeps its records for ever.
NEVER = -1


class ExpiringRecords(NamedTuple):
    """Records of erased aggregates that the broker will delete, the last record at `until` (ms). `description`: the
    end of the message, such as `with the values as sent`.

    `until` is None if compaction deletes the records, but the topic's settings do not limit the time until then. It is
    `NEVER` if the topic keeps the records for ever.
    """

    topic: str
    description: str
    records: int
    until: int | None


@dataclass(slots=True)
class RecordCount:
    """The number of records, and the time (ms) of the newest record."""

    count: int = 0
    newest: int = 0

    def count_record(self, timestamp: int) -> None:
        """Count a record."""
        self.count, self.newest = self.count + 1, max(self.newest, timestamp)


class TopicFinding(NamedTuple):
    """Data of an erased aggregate in a record that the broker will not delete by itself."""

    topic: str
    partition: int
    offset: int
    problem: str

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition} offset {self.offset} {self.problem}"
