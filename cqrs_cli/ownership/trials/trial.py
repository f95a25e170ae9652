"""Trials: finding the command on which workers die. A value that rides in the claim, and its rules as pure functions.

A worker that dies says nothing. So an owner whose predecessor died before it had decided anything suspects the commands
that the predecessor began with. It decides them in parts, and after a death in one of them the next owner suspects that
part. A suspect alone is announced before it is decided: only deaths between the announcement and its outcome count.
"""

import sys
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from cqrs_cli.ownership.trials.attempts import ATTEMPTS

#: Parts in which suspects are decided. A transaction costs milliseconds and a death seconds: 5,000 commands come down
#: to 78 and then to one, at the price of 142 small transactions.
PARTS = 64

#: In place of an offset: no command is announced.
NOBODY = -1


class Blame(NamedTuple):
    """The command to blame, why, and how often it was tried alone."""

    offset: int
    why: str
    tried: int


class Trial(Struct, frozen=True, omit_defaults=True):
    """The commands from the committed offset on, one of which may have cost a worker its life."""

    suspects: int = 0  # how many they are
    at: int = NOBODY  # the offset of the last one announced
    deaths: int = 0  # workers that died while they decided it alone
    deciding: bool = False  # whether an owner has begun to decide it
    seconds: int = 0  # that it was decided for, when its worker was ended

    @property
    def limit(self) -> int:
        """Commands that may be decided at a time."""
        return max(1, self.suspects // PARTS) if self.suspects else sys.maxsize

    @property
    def blame(self) -> Blame | None:
        """The announced command, if a worker has died on it."""
        if not self.deaths:
            return None
        if self.seconds:  # nobody else can have done it: once is enough
            why = f"it did not end within {self.seconds} s"
            return Blame(self.at, why, ATTEMPTS + self.deaths - 1)
        return Blame(self.at, f"the worker died on it {_times(self.deaths)}", self.deaths)

    def announce(self, offset: int) -> "Trial":
        """The trial as an owner commits it, before it decides the command at `offset` alone."""
        deaths, seconds = (self.deaths, self.seconds) if self.at == offset else (0, 0)
        return Trial(self.suspects, offset, deaths, True, seconds)

    def endless(self, offset: int, seconds: int) -> "Trial":
        """The trial after a worker was ended because it decided the command at `offset` for so many seconds."""
        deaths = self.deaths if self.at == offset and self.seconds else 0
        return Trial(self.suspects, offset, deaths + 1, False, seconds)

    def within(self, most: int) -> "Trial | None":
        """The trial if the log has at most that many commands left; None if there is none."""
        return replace(self, suspects=min(self.suspects, most)) if most > 0 else None

    def passed(self, count: int, end: int) -> "Trial | None":
        """The trial after that many commands below `end` were decided and committed; None if no suspect is left."""
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
    """The trial of an owner whose predecessor had `before` and was `untried`: it had decided nothing.

    `died`: nothing says that the predecessor ended in any other way. `most`: commands in its largest batch.
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
