"""The texts of erased values, looked for in the bytes of files: all at once, in bounded memory."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

#: The bytes of the shortest text that is looked for: shorter ones stand in any file.
SHORTEST_NEEDLE = 5

#: The first bytes of a text that are looked for.
_LONGEST = 64

_END = b""


class Needles:
    """Texts to look for. `too_short`: those that are left out."""

    def __init__(self, texts: Iterable[str]) -> None:
        spelled = {form for text in texts for form in _forms(text)}
        wanted = sorted({form[:_LONGEST] for form in spelled if len(form) >= SHORTEST_NEEDLE})
        self.count = len(wanted)
        self.too_short = sum(len(form) < SHORTEST_NEEDLE for form in spelled)
        self._overlap = max(map(len, wanted), default=1) - 1
        self._pattern = re.compile(_pattern(_trie(wanted)), re.DOTALL) if wanted else None

    def find(self, chunks: Iterable[bytes]) -> int | None:
        """The offset of one of them in the bytes of a file; None if there is none."""
        if self._pattern is None:
            return None
        before, at = b"", 0
        for chunk in chunks:
            window = before + chunk
            if (found := self._pattern.search(window)) is not None:
                return at - len(before) + found.start()
            at += len(chunk)
            before = window[max(0, len(window) - self._overlap) :]
        return None


def _forms(text: str) -> Iterator[bytes]:
    """A text as it stands in files: as it is, and as JSON spells it."""
    yield text.encode(errors="replace")
    yield json.dumps(text)[1:-1].encode()
    yield json.dumps(text, ensure_ascii=False)[1:-1].encode(errors="replace")


def _trie(wanted: Iterable[bytes]) -> dict[bytes, Any]:
    root: dict[bytes, Any] = {}
    for form in wanted:
        at = root
        for number in form:
            at = at.setdefault(bytes([number]), {})
        at[_END] = {}
    return root


def _pattern(trie: dict[bytes, Any]) -> bytes:
    """A regular expression that reads each byte once, however many texts there are."""
    if _END in trie:  # the shortest one that begins so is enough
        return b""
    some = [re.escape(first) + _pattern(rest) for first, rest in trie.items()]
    return some[0] if len(some) == 1 else b"(?:%b)" % b"|".join(some)
