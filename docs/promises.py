"""Writes `docs/pinned.md`: the tests that pin each promise of `docs/guarantees.md`.

A test says so with `@pytest.mark.pins("one-outcome")`. `tests/test_docs.py` fails when the page is out of date.

python docs/generate_pinned.py
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs/pinned.md"

_HEAD = """# What pins the promises

Each promise of [guarantees.md](guarantees.md) with the tests that fail when it is broken. The tests say so themselves
(`@pytest.mark.pins`), and this page is made from them by `python docs/generate_pinned.py`.
"""

#: `<a id="one-outcome"></a>` stands before the heading of each promise.
_PROMISE = re.compile(r'^<a id="([\w-]+)"></a>\n## (.+)$', re.MULTILINE)


class Pin(NamedTuple):
    """One test of one promise."""

    promise: str
    file: str
    test: str
    note: str


def promises() -> dict[str, str]:
    """The heading of each promise by its anchor, in the order of the page."""
    return dict(_PROMISE.findall((ROOT / "docs/guarantees.md").read_text(encoding="utf-8")))


def pins() -> Iterator[Pin]:
    """Every mark in the tests, in the order of files and lines."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                note = (ast.get_docstring(node) or "").partition("\n")[0]
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.pins":
                        yield from (Pin(ast.literal_eval(one), file, node.name, note) for one in mark.args)


def page() -> str:
    """The whole page."""
    found: dict[str, list[Pin]] = defaultdict(list)
    for pin in pins():
        found[pin.promise].append(pin)
    headings = promises()
    if unknown := sorted(set(found) - set(headings)):
        raise SystemExit(f"error: docs/guarantees.md has no promise {', '.join(unknown)}")
    parts = [_HEAD]
    for anchor, heading in headings.items():
        parts.append(f"\n## {heading}\n\n")
        for pin in found[anchor]:
            parts.append(f"- `{pin.file}::{pin.test}`" + (f": {pin.note}" if pin.note else "") + "\n")
    return "".join(parts)


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
