"""How deep JSON nests.

A reader gives up where its stack ends, each at another depth: what is written stays far below.
"""

import re

#: The most levels of arrays and objects in the data of an event, and in a state.
MAX_DEPTH = 100

_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)


def check_depth(data: bytes) -> None:
    """Refuse valid JSON of more than `MAX_DEPTH` levels; raises `ValueError`."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _BRACKET.finditer(data):
        bracket = match[0]
        if bracket in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
        elif bracket in b"]}":
            depth -= 1
