"""Searches the bytes of files for the texts of erased values: all texts in one pass, in bounded memory."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

#: The minimal length of a search text in bytes. Shorter texts occur in any file by chance.
MIN_PATTERN_BYTES = 5

#: The maximal length of a search pattern in bytes. Only the start of a longer text is searched.
_MAX_PATTERN_BYTES = 64

_END = b""  # the key that marks the end of a text in the tree


class SearchPatterns:
    """The byte patterns of the texts to search for: one pattern for each distinct encoding of a text (`_forms`).

    `count`: the number of texts that are searched. `too_short_count`: the number of texts that are not fully searched,
    because they have fewer than `MIN_PATTERN_BYTES` in an encoding.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        forms_by_text = {text: set(_forms(text)) for text in texts}
        self.too_short_count = sum(
            min(map(len, forms)) < MIN_PATTERN_BYTES for forms in forms_by_text.values()
        )
        self.count = len(forms_by_text) - self.too_short_count
        forms = {form for forms in forms_by_text.values() for form in forms}
        patterns = sorted({form[:_MAX_PATTERN_BYTES] for form in forms if len(form) >= MIN_PATTERN_BYTES})
        self._overlap = max(map(len, patterns), default=1) - 1
        self._regex = re.compile(_regex_of(_prefix_tree(patterns)), re.DOTALL) if patterns else None

    def find_in(self, chunks: Iterable[bytes]) -> int | None:
        """Return the byte offset of the first match in a file; None if there is no match."""
        if self._regex is None:
            return None
        tail, offset = b"", 0
        for chunk in chunks:
            window = tail + chunk
            if (match := self._regex.search(window)) is not None:
                return offset - len(tail) + match.start()
            offset += len(chunk)
            tail = window[max(0, len(window) - self._overlap) :]
        return None


def _forms(text: str) -> Iterator[bytes]:
    """Yield the encodings of a text in files: plain UTF-8, and JSON with and without escapes of non-ASCII letters."""
    yield text.encode(errors="replace")
    yield json.dumps(text)[1:-1].encode()
    yield json.dumps(text, ensure_ascii=False)[1:-1].encode(errors="replace")


def _prefix_tree(patterns: Iterable[bytes]) -> dict[bytes, Any]:
    """Return the patterns as a tree of single bytes: `ab` and `ac` become `{a: {b: {_END: {}}, c: {_END: {}}}}`."""
    root: dict[bytes, Any] = {}
    for pattern in patterns:
        node = root
        for byte in pattern:
            node = node.setdefault(bytes([byte]), {})
        node[_END] = {}
    return root


def _regex_of(tree: dict[bytes, Any]) -> bytes:
    """Return a regular expression of all patterns. It reads each byte of a file once, for any number of patterns."""
    if _END in tree:  # a match of the shortest pattern with this prefix is sufficient
        return b""
    branches = [re.escape(first) + _regex_of(rest) for first, rest in tree.items()]
    return branches[0] if len(branches) == 1 else b"(?:%b)" % b"|".join(branches)
