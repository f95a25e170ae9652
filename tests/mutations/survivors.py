"""Judge what `mutmut run` left behind: each change that no test noticed is explained, or it is a gap in the tests.

`python -m tests.mutations.survivors` lists the changes that nothing explains, and exits with 1 if there are any.
"""

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.mutations.change import Change, Class, Explained
from tests.mutations.explained import CLASSES, EXPLAINED

#: The exit codes that mutmut keeps of a mutant: pytest passed, or had no test that reaches it.
UNNOTICED = (0, 5, 33)

#: mutmut's exit code of what is not run: it is explained.
SKIPPED = 34

_PIECES = re.compile(r"\w+|\s+|[^\w\s]")


class Survivor(NamedTuple):
    """A change that no test noticed: the lines `old` of a function became `new`."""

    name: str  # mutmut's: `mutmut show NAME`
    module: str  # below `cqrs_cli`
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.name}\n  - {self.old}\n  + {self.new}"


def survivors(folder: Path) -> Iterator[Survivor]:
    """The survivors in the folder that mutmut writes, and what was not run since it is explained."""
    for file, codes in results(folder):
        names = [name for name, code in codes.items() if code in (*UNNOTICED, SKIPPED)]
        if names:
            yield from changes(file, names)


def not_run(folder: Path) -> int:
    """The mutants that an interrupted run has left."""
    return sum(code is None for _, codes in results(folder) for code in codes.values())


def results(folder: Path) -> Iterator[tuple[Path, dict[str, int | None]]]:
    """The mutated files, and the exit code for each mutant, which is None until it was run."""
    for kept in sorted(folder.rglob("*.py.meta")):
        yield kept.with_suffix(""), json.loads(kept.read_text(encoding="utf-8"))["exit_code_by_key"]


def changes(file: Path, names: list[str]) -> Iterator[Survivor]:
    """Read the changes back: the file has each mutant of a function next to the function as it was."""
    text = file.read_text(encoding="utf-8")
    lines = [re.sub(r"__mutmut_(orig|\d+)\b", "", line.strip()) for line in text.splitlines()]
    functions = {
        node.name: lines[node.lineno - 1 : node.end_lineno]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
    }
    for name in names:
        module, _, mutant = name.rpartition(".")
        before, after = functions[f"{mutant.rpartition('__mutmut_')[0]}__mutmut_orig"], functions[mutant]
        old, new = (" ".join(changed) for changed in _unlike(before, after))
        yield Survivor(name, module.removeprefix("cqrs_cli."), old, new)


def _unlike(one: list[str], other: list[str]) -> tuple[list[str], list[str]]:
    """Both without what they begin with and end with in common."""
    start = 0
    while one[start : start + 1] == other[start : start + 1] and start < len(one):
        start += 1
    end = 0
    while end < min(len(one), len(other)) - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return one[start : len(one) - end], other[start : len(other) - end]


def reason(
    survivor: Survivor, classes: Sequence[Class] = CLASSES, named: Sequence[Explained] = EXPLAINED
) -> str | None:
    """The explanation of a survivor, if it has one."""
    old, new = (
        "".join(part) for part in _unlike(_PIECES.findall(survivor.old), _PIECES.findall(survivor.new))
    )
    change = Change(survivor.old, survivor.new, old, new)
    for one in classes:
        if one.holds(change):
            return one.why
    for explained in named:
        if explained.module == survivor.module and (
            any(text in survivor.new for text in explained.texts)
            or (not survivor.new and survivor.old in explained.gone)
        ):
            return explained.why
    return None


def main(folder: Path, explain: Callable[[Survivor], str | None] = reason) -> int:
    """Say what is explained and why, and list the rest; 1 if there is a rest, or if the run was not whole."""
    found = list(survivors(folder))
    reasons = Counter(filter(None, map(explain, found)))
    rest = [one for one in found if explain(one) is None]
    for why, count in reasons.most_common():
        print(f"{count:5}  {why}")
    for one in rest:
        print(one)
    left = not_run(folder)
    print(f"{len(found) - len(rest)} mutants are explained, {len(rest)} are not; {left} were not run")
    return 1 if rest or left else 0


if __name__ == "__main__":
    sys.exit(main(Path(*sys.argv[1:] or ["mutants"])))
