"""Findings about erased aggregates in a topic: violations, and records that the broker will delete later."""

from dataclasses import dataclass
from typing import NamedTuple

#: The value of a `deletion_deadline` if the topic keeps its records for ever.
NEVER = -1


class RemainingRecords(NamedTuple):
    """Records of a topic that contain data of erased aggregates until the broker deletes the records.

    Sample: `RemainingRecords("customer.commands", "with the values as sent", 3, 1795521600000)`
    """

    topic: str
    description: str  # follows the number of records in the message
    record_count: int
    #: The time (ms) by which all these records are deleted. None: compaction deletes the records, but no setting of the
    #: topic limits the delay. `NEVER`: the topic keeps the records for ever.
    deletion_deadline: int | None


@dataclass(slots=True)
class RecordCount:
    """The number of records, and the newest of their timestamps."""

    count: int = 0
    newest_time: int = 0  # ms since 1970

    def count_record(self, timestamp: int) -> None:
        """Count a record."""
        self.count, self.newest_time = self.count + 1, max(self.newest_time, timestamp)


class TopicFinding(NamedTuple):
    """A violation: data of an erased aggregate in a record that the broker will not delete."""

    topic: str
    partition: int
    offset: int
    problem: str  # the predicate of the message: `has an erased value in its message`

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition} offset {self.offset} {self.problem}"
