"""Search the bytes of files for the texts of erased values: all texts in one pass, in bounded memory."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

#: The minimal length of a search text in bytes. Shorter texts occur in any file by chance.
SHORTEST_NEEDLE = 5

#: The search uses at most this number of bytes of a text, from its start.
_LONGEST = 64

_END = b""


class Needles:
    """Search texts. `count`: the number of patterns; `too_short`: the number of texts that are not searched."""

    def __init__(self, texts: Iterable[str]) -> None:
        spelled = {form for text in texts for form in _forms(text)}
        wanted = sorted({form[:_LONGEST] for form in spelled if len(form) >= SHORTEST_NEEDLE})
        self.count = len(wanted)
        self.too_short = sum(len(form) < SHORTEST_NEEDLE for form in spelled)
        self._overlap = max(map(len, wanted), default=1) - 1
        self._pattern = re.compile(_pattern(_trie(wanted)), re.DOTALL) if wanted else None

    def find(self, chunks: Iterable[bytes]) -> int | None:
        """Return the offset of the first match in the bytes of a file; None if there is no match."""
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
    """Yield the forms of a text in files: plain UTF-8, and JSON with and without escapes."""
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
    """Return a regular expression that reads each byte once, for any number of texts."""
    if _END in trie:  # the shortest text with this prefix is sufficient
        return b""
    some = [re.escape(first) + _pattern(rest) for first, rest in trie.items()]
    return some[0] if len(some) == 1 else b"(?:%b)" % b"|".join(some)
