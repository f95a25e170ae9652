"""`Later`: what `decide` raises to be asked again, and how long that takes."""

from datetime import timedelta
from hashlib import blake2b

from cqrs_cli.core.deferral.entry import LAST_MOMENT

#: The longest wait that doubling leads to, ms, unless `after` itself is longer.
LONGEST_WAIT = 3_600_000

#: A wait is longer by up to this part of it: commands put off together do not come back together.
_JITTER = 0.1

_MILLISECOND = timedelta(milliseconds=1)


class Later(Exception):
    """The aggregate cannot say yet. Raised by `decide`; the command is decided again `after` this time.

    The wait doubles with each attempt, up to an hour or `after` if that is longer. `reason` is for people.
    """

    def __init__(self, after: timedelta = timedelta(seconds=1), reason: str = "") -> None:
        if not isinstance(after, timedelta):
            raise TypeError(f"Later: after is a timedelta, found {after!r:.100}")
        if after <= timedelta(0):
            raise ValueError(f"Later: after must be more than nothing, found {after}")
        super().__init__(reason)
        self.after = after
        self.reason = reason


def due_again(after: timedelta, attempt: int, command_id: str, timestamp: int) -> int:
    """The time at which a command is decided again whose record has this timestamp, ms; `attempt` counts from 1.

    The same for every owner: the jitter is a hash of id and attempt.
    """
    base = max(1, after // _MILLISECOND)
    wait = min(base << min(attempt - 1, 40), max(base, LONGEST_WAIT))
    digest = blake2b(f"{command_id}/{attempt}".encode(errors="replace"), digest_size=4).digest()
    jitter = int(wait * _JITTER * int.from_bytes(digest, "big") / 2**32)
    return min(timestamp + wait + jitter, LAST_MOMENT)
