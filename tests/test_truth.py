"""Texts about the code are correct: counts, figures and words that become wrong when other code changes."""

import ast
import re
from collections.abc import Iterator

from cqrs_cli import errors
from cqrs_cli.client.outcomes import is_failure
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, Verdict
from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.kafka.topics.topics import KINDS
from tests.support import ROOT

PAGES = {path.name: path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
README = (ROOT / "README.md").read_text()
MODULES = {path: path.read_text() for path in sorted((ROOT / "cqrs_cli").rglob("*.py"))}

_NUMBERS = ["two", "three", "four", "five", "six", "seven"]


def outcome_with(status: str) -> OutcomeEnvelope:
    return OutcomeEnvelope(id="0/0", type="a.B", data=Verdict(status=status, partition=0, offset=0))


def docstrings() -> Iterator[str]:
    for text in MODULES.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                yield ast.get_docstring(node) or ""


def test_texts_have_the_number_of_topics() -> None:
    pattern = re.compile(rf"(?:\b[Aa]ll|\b[Tt]he|'s) ({'|'.join(_NUMBERS)}) (?:topics|logs)\b")
    texts = [README, *PAGES.values(), *MODULES.values()]
    assert {number for text in texts for number in pattern.findall(text)} == {_NUMBERS[len(KINDS) - 2]}


def test_docstring_names_the_failure_statuses() -> None:
    failure_statuses = {status for status in STATUSES if is_failure(outcome_with(status))}
    (line,) = (line for line in (errors.__doc__ or "").splitlines() if "RefusedError" in line)
    assert {status for status in STATUSES if re.search(rf"\b{status}\b", line)} == {
        *failure_statuses,
        "duplicate",
    }


def test_docstrings_begin_with_no_class_name() -> None:
    """A careless renaming of `Record` would leave texts that begin with, for example, `OwnerRecord records`."""
    classes = {name for text in MODULES.values() for name in re.findall(r"^class (\w+)", text, re.MULTILINE)}
    first_words = (text.split(maxsplit=1)[0] for text in docstrings() if text)
    assert [word for word in first_words if word in classes and re.search(r"[a-z][A-Z]", word)] == []


def test_pages_repeat_the_figures_of_readme() -> None:
    """A page that names a benchmark of the README's table has the README's figure for it."""
    for page, text in PAGES.items():
        for paragraph in text.split("\n\n"):
            if any(f"`python -m {name}`" in README for name in re.findall(r"benchmarks\.\w+", paragraph)):
                figures = re.findall(r"([\d,]{5,}) (?:events|commands)/s", paragraph)
                assert [figure for figure in figures if figure not in README] == [], page
