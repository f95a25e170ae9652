"""The commands of a partition that are not decided normally: an operator gave them up, or attempts at them failed."""

import sys
from collections.abc import Callable, Mapping

#: A command is decided alone this often before it fails because of an error that it may not have caused.
ATTEMPTS = 3


class Attempts:
    """The commands of a partition that could not be decided, as known to its supervisor. `note` gets texts for the
    operator.
    """

    def __init__(
        self, place: str, note: Callable[[str], None], refused: frozenset[int] = frozenset()
    ) -> None:
        self.refused = refused  # offsets of commands that fail without being read
        self.blamed: dict[int, str] = {}  # offset → why the aggregate's code is not called again
        self._place = place
        self.note = note
        self._raised: set[str] = set()  # locations and types of errors that were reported
        self._failed: dict[int, int] = {}  # offset → number of failed attempts at deciding it alone

    def tell_raised(self, raised: Mapping[str, str]) -> None:
        """Report errors of the aggregate's code, once per location and type: a note, and a traceback in the log."""
        for kind, traceback in raised.items():
            if kind not in self._raised:
                self._raised.add(kind)
                self.note(f"{kind} while deciding: such commands fail; the traceback is in the log")
                print(f"{self._place}: {traceback.rstrip()}", file=sys.stderr, flush=True)

    def refuse(self, offset: int, why: str) -> None:
        """Give a command the outcome `failed` without reading it."""
        self.refused |= {offset}
        self.note(f"{self._place} offset {offset} failed, and its dead letter has none of its bytes: {why}")

    def failed_alone(self, offset: int, why: str) -> None:
        """Record that a process error interrupted the decision of a command that was decided alone."""
        tried = self._failed[offset] = self._failed.get(offset, 0) + 1
        self.blame(offset, f"{why} (tried alone {tried} times)", tried)

    def blame(self, offset: int, why: str, tried: int) -> None:
        """Give a command the outcome `failed` if it was `tried` at least `ATTEMPTS` times; if it was tried more often,
        without reading it.
        """
        if tried > ATTEMPTS and offset not in self.refused:
            self.refuse(offset, why)
        elif tried >= ATTEMPTS and offset not in self.blamed:
            self.blamed[offset] = why
            self.note(f"{self._place} offset {offset} failed: {why}")
