"""The id and the source of a command from a process manager.

Other senders could guess such an id. So ids of this form are reserved for the source of the process manager.
"""

import re
from typing import NamedTuple

_FORM = re.compile(
    r"(?P<process>[A-Za-z0-9_-]{1,150})/(?P<topic>[A-Za-z0-9._-]{1,249}\.events)"
    r"/(?P<event>.+)@(?P<time>0|[1-9]\d*)/(?P<number>0|[1-9]\d*)",
    re.ASCII | re.DOTALL,
)


class ReactionId(NamedTuple):
    """The id of a command that a process manager sends: `checkout/order.events/3/120/0@1795521600000/0`."""

    process: str
    topic: str  # of the event
    event: str  # the event's id
    time: int  # of the event, ms
    number: int  # the index of the command among the commands for the event

    @property
    def id_prefix(self) -> str:
        """The common prefix of the ids of all commands for the event."""
        return f"{self.process}/{self.topic}/{self.event}@{self.time}"

    def __str__(self) -> str:
        return f"{self.id_prefix}/{self.number}"


def read_reaction_id(id: str) -> ReactionId | None:
    """Return the parts of an id; None if it does not have the form of a process manager's id."""
    match = _FORM.fullmatch(id) if "@" in id else None
    if match is None:
        return None
    return ReactionId(match[1], match[2], match[3], int(match[4]), int(match[5]))


def process_source(process: str) -> str:
    """Return the CloudEvents source of a process manager's commands."""
    return f"/cqrs/process/{process}"


def reserved_id_error(id: str, source: str) -> str | None:
    """Return why commands of this source may not have this id; None if they may."""
    process = id.partition("/")[0]
    if source == process_source(process) or read_reaction_id(id) is None:
        return None
    return f"the id {id[:200]!r} has the form of an id of process manager {process}: use another id"
