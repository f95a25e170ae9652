"""The partition that is proved, and what is known of it before its records are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cqrs_cli.core.moments import rfc3339
from cqrs_cli.core.record import Record
from cqrs_cli.proof.findings import Kind


@dataclass(frozen=True, slots=True)
class Scope:
    """`accepted_loss` and `resumed` tell what an operator accepted (`run --accept-loss`): the offset to go on from, and
    the first command that is there from it on.
    """

    aggregate: str
    commands: str  # the commands topic, as dead letters name it
    partition: int
    starts: Mapping[Kind, int]  # where each log starts: what lay before was deleted
    window: int  # how long an id is remembered, ms: the shortest time that there ever was
    home: Callable[[bytes], int | None] = lambda key: None  # the partition of a key, None: anywhere
    accepted_loss: int | None = None
    resumed: int | None = None
    command_at: Callable[[int], Record | None] = lambda offset: None  # what the commands topic has there now
    longest_window: int | None = None  # the longest, ms; None: there was one only


class Clock:
    """The text of a record's timestamp; records of one millisecond come together."""

    def __init__(self) -> None:
        self._timestamp = -1
        self._text = ""

    def __call__(self, timestamp: int) -> str:
        if timestamp != self._timestamp:
            self._timestamp, self._text = timestamp, rfc3339(timestamp)
        return self._text
