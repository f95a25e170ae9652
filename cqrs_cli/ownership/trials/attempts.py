"""The commands of a partition that are not decided as others are: given up by an operator, or tried in vain."""

import sys
from collections.abc import Callable, Mapping

#: A command is tried alone this often before it fails by something that need not be its own doing.
ATTEMPTS = 3


class Attempts:
    """A partition's commands that could not be decided, as its supervisor knows them. `note` gets a text for people."""

    def __init__(
        self, place: str, note: Callable[[str], None], refused: frozenset[int] = frozenset()
    ) -> None:
        self.refused = refused  # offsets that get a failed outcome unread
        self.blamed: dict[int, str] = {}  # offset → why the aggregate's code is not asked again
        self._place = place
        self.note = note
        self._raised: set[str] = set()  # places and kinds of errors that were told
        self._failed: dict[int, int] = {}  # offset → how often it was tried alone, in vain

    def tell_raised(self, raised: Mapping[str, str]) -> None:
        """Tell of errors of the aggregate's code, each place and kind once: a note, and a traceback in the log."""
        for kind, traceback in raised.items():
            if kind not in self._raised:
                self._raised.add(kind)
                self.note(f"{kind} while deciding: such commands fail; the traceback is in the log")
                print(f"{self._place}: {traceback.rstrip()}", file=sys.stderr, flush=True)

    def refuse(self, offset: int, why: str) -> None:
        """Give a command a failed outcome unread."""
        self.refused |= {offset}
        self.note(f"{self._place} offset {offset} failed, and its dead letter has none of its bytes: {why}")

    def failed_alone(self, offset: int, why: str) -> None:
        """Note that an error of the process kept a command from being decided alone."""
        tried = self._failed[offset] = self._failed.get(offset, 0) + 1
        self.blame(offset, f"{why} (tried alone {tried} times)", tried)

    def blame(self, offset: int, why: str, tried: int) -> None:
        """Give a command a failed outcome if it was `tried` often enough; unread if it was blamed and tried again."""
        if tried > ATTEMPTS and offset not in self.refused:
            self.refuse(offset, why)
        elif tried >= ATTEMPTS and offset not in self.blamed:
            self.blamed[offset] = why
            self.note(f"{self._place} offset {offset} failed: {why}")
