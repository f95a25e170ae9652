"""The id and the source of a command that a process sends. Anybody can guess such an id: it is the process's alone."""

import re
from typing import NamedTuple

_FORM = re.compile(
    r"(?P<process>[A-Za-z0-9_-]{1,150})/(?P<topic>[A-Za-z0-9._-]{1,249}\.events)"
    r"/(?P<event>.+)@(?P<time>0|[1-9]\d*)/(?P<number>0|[1-9]\d*)",
    re.ASCII | re.DOTALL,
)


class ReactionId(NamedTuple):
    """The id of the command `number` of those that a process sends for an event."""

    process: str
    topic: str  # of the event
    event: str  # its id
    time: int  # of the event, ms
    number: int

    @property
    def origin(self) -> str:
        """The common beginning of the ids of all commands for the event."""
        return f"{self.process}/{self.topic}/{self.event}@{self.time}"

    def __str__(self) -> str:
        return f"{self.origin}/{self.number}"


def read_reaction_id(id: str) -> ReactionId | None:
    """The parts of an id; None if no process gives such a one."""
    found = _FORM.fullmatch(id) if "@" in id else None
    if found is None:
        return None
    return ReactionId(found[1], found[2], found[3], int(found[4]), int(found[5]))


def process_source(process: str) -> str:
    """The CloudEvents source of the commands of a process."""
    return f"/cqrs/process/{process}"


def why_reserved(id: str, source: str) -> str | None:
    """The reason why this source may not give a command this id; None if it may."""
    process = id.partition("/")[0]
    if source == process_source(process) or read_reaction_id(id) is None:
        return None
    return f"the id {id[:200]!r} is one that process {process} gives: nobody else may"
