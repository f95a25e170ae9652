"""The rest of erased aggregates in a topic: records that go by themselves, and those that do not."""

from dataclasses import dataclass
from typing import NamedTuple

#: A time that never comes, ms: a topic keeps its records for ever.
NEVER = -1


class Waiting(NamedTuple):
    """Records of erased aggregates that go by themselves, the last of them at `until` (ms).

    None: once the broker compacts the topic, whose settings name no time. `NEVER`: they stay.
    """

    topic: str
    what: str
    records: int
    until: int | None


@dataclass(slots=True)
class RecordCount:
    """Records, and the time (ms) of the newest one."""

    count: int = 0
    newest: int = 0

    def add(self, timestamp: int) -> None:
        """Count one more."""
        self.count, self.newest = self.count + 1, max(self.newest, timestamp)


class LeftInTopic(NamedTuple):
    """Something of an erased aggregate in a topic that does not go by itself."""

    topic: str
    partition: int
    offset: int
    what: str

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition} offset {self.offset} {self.what}"
