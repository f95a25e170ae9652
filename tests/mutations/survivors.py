"""Judge the results of `mutmut run`: each change that no test noticed is explained, or shows a gap in the tests.

`python -m tests.mutations.survivors` lists the unexplained changes, and exits with 1 if there are any.
"""

import ast
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.mutations.change import Change, ChangeClass, Explanation
from tests.mutations.explanations import CLASSES, EXPLAINED

#: mutmut's exit codes of a survivor: pytest passed, or no test reaches the mutant.
UNNOTICED = (0, 5, 33)

#: mutmut's exit code of a mutant that was not run because it is explained.
SKIPPED = 34

_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")


class Survivor(NamedTuple):
    """A change that no test noticed: the lines `old` of a function became `new`."""

    name: str  # for `mutmut show NAME`
    module: str  # relative to `cqrs_cli`
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.name}\n  - {self.old}\n  + {self.new}"


def survivors(folder: Path) -> Iterator[Survivor]:
    """Yield the survivors in mutmut's folder, and the mutants that were not run because they are explained."""
    for file, codes in exit_codes_by_file(folder):
        names = [name for name, code in codes.items() if code in (*UNNOTICED, SKIPPED)]
        if names:
            yield from survivors_in_file(file, names)


def count_not_run(folder: Path) -> int:
    """Return the number of mutants that an interrupted run has not run."""
    return sum(code is None for _, codes in exit_codes_by_file(folder) for code in codes.values())


def exit_codes_by_file(folder: Path) -> Iterator[tuple[Path, dict[str, int | None]]]:
    """Yield the mutated files, with the exit code of each mutant, which is None before its run."""
    for meta_file in sorted(folder.rglob("*.py.meta")):
        yield meta_file.with_suffix(""), json.loads(meta_file.read_text(encoding="utf-8"))["exit_code_by_key"]


def survivors_in_file(file: Path, names: list[str]) -> Iterator[Survivor]:
    """Yield the changes of a mutated file, which contains each mutant of a function next to the original."""
    text = file.read_text(encoding="utf-8")
    lines = [re.sub(r"__mutmut_(orig|\d+)\b", "", line.strip()) for line in text.splitlines()]
    functions = {
        node.name: lines[node.lineno - 1 : node.end_lineno]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
    }
    for name in names:
        module, _, mutant = name.rpartition(".")
        original, mutated = functions[f"{mutant.rpartition('__mutmut_')[0]}__mutmut_orig"], functions[mutant]
        old, new = (" ".join(changed) for changed in _differing_parts(original, mutated))
        yield Survivor(name, module.removeprefix("cqrs_cli."), old, new)


def _differing_parts(original: list[str], mutated: list[str]) -> tuple[list[str], list[str]]:
    """Return both without their common beginning and end."""
    start = 0
    while original[start : start + 1] == mutated[start : start + 1] and start < len(original):
        start += 1
    end = 0
    while end < min(len(original), len(mutated)) - start and original[-1 - end] == mutated[-1 - end]:
        end += 1
    return original[start : len(original) - end], mutated[start : len(mutated) - end]


def explanation_of(
    survivor: Survivor,
    classes: Sequence[ChangeClass] = CLASSES,
    explanations: Sequence[Explanation] = EXPLAINED,
) -> str | None:
    """Return the explanation of a survivor, or None."""
    old, new = (
        "".join(part)
        for part in _differing_parts(_TOKENS.findall(survivor.old), _TOKENS.findall(survivor.new))
    )
    change = Change(survivor.old, survivor.new, old, new)
    for change_class in classes:
        if change_class.holds(change):
            return change_class.why
    for explanation in explanations:
        if explanation.module == survivor.module and (
            any(text in survivor.new for text in explanation.texts)
            or (not survivor.new and survivor.old in explanation.gone)
        ):
            return explanation.why
    return None


def outdated_texts(
    survivors: Sequence[Survivor], explanations: Sequence[Explanation] = EXPLAINED
) -> list[str]:
    """Return the texts of explanations that match no mutant of their module, since its code has changed."""
    new_lines = defaultdict[str, list[str]](list)
    for survivor in survivors:
        new_lines[survivor.module].append(survivor.new)
    return [
        f"{explanation.module}: {text}"
        for explanation in explanations
        for text in explanation.texts
        if explanation.module in new_lines and not any(text in line for line in new_lines[explanation.module])
    ]


def main(folder: Path, explain: Callable[[Survivor], str | None] = explanation_of) -> int:
    """Print the explanations and the unexplained changes. Return 1 for an unexplained change, an outdated explanation
    or an incomplete run.
    """
    survivors_found = list(survivors(folder))
    reasons = Counter(filter(None, map(explain, survivors_found)))
    unexplained = [survivor for survivor in survivors_found if explain(survivor) is None]
    for why, count in reasons.most_common():
        print(f"{count:5}  {why}")
    for survivor in unexplained:
        print(survivor)
    outdated = outdated_texts(survivors_found)
    for text in outdated:
        print(f"an explanation matches no change: {text}")
    not_run_count = count_not_run(folder)
    print(
        f"{len(survivors_found) - len(unexplained)} mutants are explained, {len(unexplained)} are not; "
        f"{not_run_count} were not run"
    )
    return 1 if unexplained or outdated or not_run_count else 0


if __name__ == "__main__":
    sys.exit(main(Path(*sys.argv[1:] or ["mutants"])))
