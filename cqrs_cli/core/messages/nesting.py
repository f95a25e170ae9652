"""How deep JSON nests.

A reader gives up where its stack ends, each at another depth: what is written stays far below.
"""

import re

#: The most levels of arrays and objects in the data of an event, and in a state.
MAX_NESTING = 100
#: The most levels in a whole command: with less a reader high up its stack would give up, which one below reads on.
MAX_ENVELOPE_NESTING = 250

# A string that is not closed goes to the end: looked for again at each of its quotes, it would take time by its square.
_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


def check_nesting(data: bytes, most: int = MAX_NESTING) -> None:
    """Refuse JSON of more than so many levels, in time by its length whatever it is; raises `ValueError`."""
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
