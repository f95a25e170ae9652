"""Checks the records of a positions topic in the order of the log, for `cqrs verify --process`.

The topic is compacted, so only the last record of each events partition is certain to exist.
"""

from collections.abc import Callable, Iterable, Iterator

from cqrs_cli.core.messages.record import Record
from cqrs_cli.following.processes.position import ProcessPosition, read_position

_LIMIT = 2**63


class PositionCheck:
    """Reads position records, and reports each record that no correct process manager would have written."""

    def __init__(self, topic: str, report: Callable[[str], None]) -> None:
        """`topic`: the topic and partition in reports, such as `cqrs.checkout.positions:0`."""
        self._topic, self._report = topic, report
        self._last: dict[bytes, ProcessPosition] = {}

    def decode(self, records: Iterable[Record]) -> dict[bytes, ProcessPosition]:
        """Return `position_key` → last position in these records. Unreadable records are reported and skipped."""
        positions = dict[bytes, ProcessPosition]()
        for record in records:
            key = record.key or b""
            try:
                position = read_position(record.value)
            except ValueError as error:
                self._report(f"{self._topic}@{record.offset}: it is not a position: {error}")
                continue
            problems = [*find_position_problems(key, record.value, position)]
            if key in self._last:
                problems += compare_positions(self._last[key], position)
            for problem in problems:
                self._report(f"{self._topic}@{record.offset}: it {problem}")
            positions[key] = self._last[key] = position
        return positions


def find_position_problems(key: bytes, value: bytes | None, position: ProcessPosition) -> Iterator[str]:
    """Yield the contradictions within a position record. `position`: the decoded `value`."""
    topic, _, number = key.decode(errors="replace").rpartition("/")
    if not topic or not number.isdecimal() or str(int(number)) != number:
        yield f"has the key {key!r:.100}, which is not of an events partition"
    elif not int(number) < position.claim.partitions:
        yield f"is of partition {number}, but its claim has {position.claim.partitions} partitions"
    if position.encode() != value:
        yield "has another form than a process manager writes"
    optional = (position.stopped, position.accepted, position.start)
    numbers = [position.offset, position.claim.number, *position.all_skipped]
    numbers += [offset for offset in optional if offset is not None]
    if impossible := [number for number in numbers if not 0 <= number < _LIMIT]:
        yield f"has the number {impossible[0]}"
    if position.stopped not in (None, position.offset):
        yield f"is {position.offset}, but the process manager stopped at event {position.stopped}"
    if position.start is not None and position.start > position.offset:
        yield f"is {position.offset}, but the process manager started at {position.start}"
    if position.accepted is None and any(event >= position.offset for event in position.all_skipped):
        yield f"is {position.offset}, but an operator has skipped the event {max(position.all_skipped)}"


def compare_positions(before: ProcessPosition, after: ProcessPosition) -> Iterator[str]:
    """Yield the contradictions of two successive records of one partition.

    After an accepted loss, or in a recreated topic, the position may be any offset.
    """
    if before.accepted != after.accepted or before.claim.topic_id != after.claim.topic_id:
        return
    if after.offset < before.offset:
        yield f"goes back from {before.offset} to {after.offset}, but no loss was accepted"
    if after.start != before.start:
        yield f"says that the process manager started at {after.start}, an earlier record {before.start}"
    if after.all_skipped[: len(before.all_skipped)] != before.all_skipped:
        yield "omits an event that an operator has skipped"
    if after.claim.number < before.claim.number:
        yield f"has claim {after.claim.number}, an earlier record claim {before.claim.number}"
