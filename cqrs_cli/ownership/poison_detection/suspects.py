"""The suspects of poison-record detection, as a value in the claim, with its rules as pure functions.

A worker that dies reports nothing. So if an owner died before it had decided anything, the next owner suspects the
commands with which its predecessor began. It decides them in parts, and after a death in one part, the next owner
suspects that part. A single suspect is announced before it is decided: only deaths between the announcement and its
outcome count.
"""

import sys
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from cqrs_cli.ownership.poison_detection.attempts import ATTEMPTS

#: The number of parts in which suspects are decided. A transaction takes milliseconds, and a death takes seconds: 5,000
#: suspects are reduced to 78 and then to one by 142 small transactions.
PARTS = 64

#: Replaces an offset if no command is announced.
NOT_ANNOUNCED = -1


class Culprit(NamedTuple):
    """The command that is blamed, the reason, and the number of attempts to decide it alone.

    Sample: `Culprit(4711, "the worker died on it once", 1)`
    """

    offset: int
    reason: str
    attempts: int


class Suspects(Struct, frozen=True, omit_defaults=True, rename={"count": "suspects", "announced": "at"}):
    """The commands from the committed offset on, one of which may have killed a worker.

    Samples: `Suspects(5000)`: 5,000 suspects, decided 78 at a time. `Suspects(1, announced=4711, deaths=2)`: two
    workers died while they decided the command at offset 4711 alone.
    """

    count: int = 0  # number of suspects
    announced: int = NOT_ANNOUNCED  # offset of the last announced command
    deaths: int = 0  # the number of workers that died while they decided the announced command alone
    deciding: bool = False  # True if an owner has begun to decide the announced command
    seconds: int = 0  # the time in `decide` after which its worker was ended; 0 if the command did not hang

    @property
    def limit(self) -> int:
        """The maximal number of commands to decide at a time."""
        return max(1, self.count // PARTS) if self.count else sys.maxsize

    @property
    def culprit(self) -> Culprit | None:
        """The announced command, if a worker has died on it; otherwise None."""
        if not self.deaths:
            return None
        if self.seconds:  # no other command can be the cause, so one hang is enough
            reason = f"it did not end within {self.seconds} s"
            return Culprit(self.announced, reason, ATTEMPTS + self.deaths - 1)
        return Culprit(self.announced, f"the worker died on it {_times(self.deaths)}", self.deaths)

    def announce(self, offset: int) -> "Suspects":
        """Return the suspects to commit before the command at `offset` is decided alone."""
        deaths, seconds = (self.deaths, self.seconds) if self.announced == offset else (0, 0)
        return Suspects(self.count, offset, deaths, True, seconds)

    def after_hang(self, offset: int, seconds: int) -> "Suspects":
        """Return the suspects after a worker was ended: it decided the command at `offset` for so many seconds."""
        deaths = self.deaths if self.announced == offset and self.seconds else 0
        return Suspects(self.count, offset, deaths + 1, False, seconds)

    def limited_to(self, commands_left: int) -> "Suspects | None":
        """Return the suspects in a log with so many undecided commands; None if no command is left."""
        return replace(self, count=min(self.count, commands_left)) if commands_left > 0 else None

    def after_decided(self, decided_count: int, end: int) -> "Suspects | None":
        """Return the suspects after `decided_count` commands below `end` were committed; None if no suspect is left. A
        command that hung stays announced until it is below `end`.
        """
        remaining = max(0, self.count - decided_count)
        if self.seconds and self.announced >= end:
            return replace(self, count=remaining)
        return Suspects(remaining) if remaining else None

    def __str__(self) -> str:
        if self.culprit is not None and self.culprit.attempts >= ATTEMPTS:
            return f"command {self.announced} fails: {self.culprit.reason}"
        if self.deciding or self.deaths:
            deaths = f"a worker died on it {_times(self.deaths)}" if self.deaths else "no worker died on it"
            return f"command {self.announced} is decided alone: {deaths} so far, after {ATTEMPTS} deaths it fails"
        return f"a worker died: the next {self.count} commands are decided {self.limit} at a time"


def inherit_suspects(before: Suspects | None, untried: bool, died: bool, batch_limit: int) -> Suspects | None:
    """Return the suspects of an owner whose predecessor had the suspects `before`. `untried`: True if the predecessor
    had decided no command. `died`: True if the predecessor probably died, because no claim shows that it ended
    otherwise. `batch_limit`: the maximal number of commands in a batch.
    """
    if before is None:
        return Suspects(batch_limit) if died and untried else None
    if died and before.deciding:
        return replace(before, deaths=before.deaths + 1, deciding=False)
    if died and not before.count:
        return replace(before, count=batch_limit) if untried else before
    if died and before.limit > 1:
        return replace(before, count=before.limit)
    return replace(before, deciding=False)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
