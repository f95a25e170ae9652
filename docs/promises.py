"""List the tests that cover each promise of `docs/guarantees.md`, as a page of the site.

A test names its promises: `@pytest.mark.covers("one-outcome")`.

python -m docs.promises
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

_HEAD = """# Promises and their tests

Each promise of [guarantees.md](guarantees.md), with the tests that fail when it is broken.
"""

#: `<a id="one-outcome"></a>` stands before the heading of each promise.
_PROMISE = re.compile(r'^<a id="([\w-]+)"></a>\n## (.+)$', re.MULTILINE)


class Cover(NamedTuple):
    """A test that covers a promise."""

    promise: str
    file: str
    test: str
    note: str


def promises() -> dict[str, str]:
    """Return the heading of each promise by its anchor, in the order of the page."""
    return dict(_PROMISE.findall((ROOT / "docs/guarantees.md").read_text(encoding="utf-8")))


def covers() -> Iterator[Cover]:
    """Yield every `covers` mark in the tests, in the order of files and lines."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                note = (ast.get_docstring(node) or "").partition("\n")[0]
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.covers":
                        yield from (
                            Cover(ast.literal_eval(promise), file, node.name, note) for promise in mark.args
                        )


def page() -> str:
    """Return the page as Markdown."""
    found: dict[str, list[Cover]] = defaultdict(list)
    for cover in covers():
        found[cover.promise].append(cover)
    headings = promises()
    if unknown := sorted(set(found) - set(headings)):
        raise SystemExit(f"error: docs/guarantees.md has no promise {', '.join(unknown)}")
    parts = [_HEAD]
    for anchor, heading in headings.items():
        parts.append(f"\n## {heading}\n\n")
        for cover in found[anchor]:
            parts.append(f"- `{cover.file}::{cover.test}`" + (f": {cover.note}" if cover.note else "") + "\n")
    return "".join(parts)


if __name__ == "__main__":
    print(page(), end="")
