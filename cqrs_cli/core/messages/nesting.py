"""The limits for the nesting of JSON.

Each JSON reader fails at a different depth, when its own stack is full. All records stay far below these depths.
"""

import re

#: The maximal nesting of arrays and objects in the data of an event, and in a state.
MAX_NESTING = 100
#: The maximal nesting of a whole command. msgspec's own limit depends on the free stack; this limit is the same
#: everywhere.
MAX_ENVELOPE_NESTING = 250

# An unclosed string matches to the end of the text. Otherwise the search would restart at each quote within it, in
# quadratic time.
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


def check_nesting(data: bytes, max_levels: int = MAX_NESTING) -> None:
    """Raise `ValueError` for JSON with more than `max_levels` levels. The time is linear in the length of the data."""
    if data.count(b"[") + data.count(b"{") <= max_levels:
        return
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(data):
        token = match[0]
        if token in b"[{":
            depth += 1
            if depth > max_levels:
                raise ValueError(f"nested more than {max_levels} levels deep")
        elif token in b"]}":
            depth -= 1
