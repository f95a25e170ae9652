"""The nesting of JSON, and its limits.

A reader gives up where its stack ends, each at another depth. Everything that is written stays far below.
"""

import re

#: Deepest nesting of arrays and objects in the data of an event, and in a state.
MAX_NESTING = 100
#: Deepest nesting of a whole command. msgspec's own limit depends on how much stack is left; this one is the same
#: everywhere.
MAX_ENVELOPE_NESTING = 250

# A string that is not closed matches to the end: tried again at each of its quotes, it would take quadratic time.
_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


def check_nesting(data: bytes, most: int = MAX_NESTING) -> None:
    """Refuse JSON of more than `most` levels, in time linear in its length; raises `ValueError`."""
    if data.count(b"[") + data.count(b"{") <= most:
        return
    depth = 0
    for match in _BRACKET.finditer(data):
        bracket = match[0]
        if bracket in b"[{":
            depth += 1
            if depth > most:
                raise ValueError(f"nested more than {most} levels deep")
        elif bracket in b"]}":
            depth -= 1
