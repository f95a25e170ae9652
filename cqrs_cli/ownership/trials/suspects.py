"""Trials: poison-record detection, as a value in the claim, with its rules as pure functions.

A worker that dies reports nothing. So if an owner died before it had decided anything, the next owner suspects the
commands with which its predecessor began. It decides them in parts, and after a death in one part, the next owner
suspects that part. A single suspect is announced before it is decided: only deaths between the announcement and its
outcome count.
"""

import sys
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from cqrs_cli.ownership.trials.attempts import ATTEMPTS

#: Parts in which suspects are decided. A transaction costs milliseconds and a death seconds: 5,000 suspects are reduced
#: to 78 and then to one, at the price of 142 small transactions.
PARTS = 64

#: In place of an offset: no command is announced.
NOBODY = -1


class Blame(NamedTuple):
    """The command to blame, the reason, and how often it was tried alone.

    Sample: `Blame(4711, "the worker died on it once", 1)`
    """

    offset: int
    why: str
    tried: int


class Trial(Struct, frozen=True, omit_defaults=True):
    """The suspects: the commands from the committed offset on, one of which may have killed a worker.

    Samples: `Trial(5000)`: 5,000 suspects, decided 78 at a time. `Trial(1, at=4711, deaths=2)`: two workers died while
    they decided the command at offset 4711 alone.
    """

    suspects: int = 0  # number of suspects
    at: int = NOBODY  # offset of the last announced command
    deaths: int = 0  # workers that died while deciding it alone
    deciding: bool = False  # True once an owner has begun to decide it
    seconds: int = 0  # how long it had been in `decide` when its worker was ended; 0 otherwise

    @property
    def limit(self) -> int:
        """Most commands that may be decided at a time."""
        return max(1, self.suspects // PARTS) if self.suspects else sys.maxsize

    @property
    def blame(self) -> Blame | None:
        """The announced command, if a worker has died on it; otherwise None."""
        if not self.deaths:
            return None
        if self.seconds:  # no other command can be the cause: once is enough
            why = f"it did not end within {self.seconds} s"
            return Blame(self.at, why, ATTEMPTS + self.deaths - 1)
        return Blame(self.at, f"the worker died on it {_times(self.deaths)}", self.deaths)

    def announce(self, offset: int) -> "Trial":
        """Return the trial to commit before the command at `offset` is decided alone."""
        deaths, seconds = (self.deaths, self.seconds) if self.at == offset else (0, 0)
        return Trial(self.suspects, offset, deaths, True, seconds)

    def endless(self, offset: int, seconds: int) -> "Trial":
        """Return the trial after a worker was ended because it decided the command at `offset` for so many seconds."""
        deaths = self.deaths if self.at == offset and self.seconds else 0
        return Trial(self.suspects, offset, deaths + 1, False, seconds)

    def within(self, most: int) -> "Trial | None":
        """Return the trial for a log with at most `most` commands left; None if none is left."""
        return replace(self, suspects=min(self.suspects, most)) if most > 0 else None

    def passed(self, count: int, end: int) -> "Trial | None":
        """Return the trial after `count` commands below `end` were decided and committed; None if no suspect is left. A
        command that did not end stays announced until it is below `end`.
        """
        left = max(0, self.suspects - count)
        if self.seconds and self.at >= end:
            return replace(self, suspects=left)
        return Trial(left) if left else None

    def __str__(self) -> str:
        if self.blame is not None and self.blame.tried >= ATTEMPTS:
            return f"command {self.at} fails: {self.blame.why}"
        if self.deciding or self.deaths:
            seen = f"{_times(self.deaths)} so far" if self.deaths else "never so far"
            return f"command {self.at} is decided alone: a worker died on it {seen}, at {ATTEMPTS} it fails"
        return f"a worker died: the next {self.suspects} commands are decided {self.limit} at a time"


def inherit(before: Trial | None, untried: bool, died: bool, most: int) -> Trial | None:
    """Return the trial of an owner whose predecessor had the trial `before`. `untried`: it had decided nothing.

    `died`: no sign that the predecessor ended in any other way. `most`: commands in its largest batch.
    """
    if before is None:
        return Trial(most) if died and untried else None
    if died and before.deciding:
        return replace(before, deaths=before.deaths + 1, deciding=False)
    if died and not before.suspects:
        return replace(before, suspects=most) if untried else before
    if died and before.limit > 1:
        return replace(before, suspects=before.limit)
    return replace(before, deciding=False)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
