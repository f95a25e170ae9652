"""The rules of the tests themselves: the place of helpers, and the length of names and files."""

import ast
import re
from collections.abc import Iterator

from tests.support import ROOT, distribution, limits

TESTS = {path: path.read_text() for path in sorted((ROOT / "tests").rglob("*.py"))}


def is_test_module(module: str) -> bool:
    return module.startswith("tests.") and module.rpartition(".")[2].startswith("test_")


def imported_test_modules(text: str) -> Iterator[str]:
    """Yield the test modules that a module imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            modules = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
            yield from filter(is_test_module, modules)


def test_helpers_are_not_in_test_modules() -> None:
    assert {
        str(path): modules for path, text in TESTS.items() if (modules := [*imported_test_modules(text)])
    } == {}


#: The number of patched attributes in all tests. Parameters and fakes are better.
PATCHES = 35


def test_few_attributes_are_patched() -> None:
    patches = {path: text.count(".setattr(") for path, text in TESTS.items() if path.name != "test_suite.py"}
    assert sum(patches.values()) <= PATCHES


def test_long_files_have_a_reason() -> None:
    lines = {str(path.relative_to(ROOT)): len(text.splitlines()) for path, text in TESTS.items()}
    limits.warn("300 lines", (path for path, count in lines.items() if count > 300))


def test_tests_have_short_names() -> None:
    """A name has at most seven words. The docstring may contain more."""
    names = {
        node.name
        for text in TESTS.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    limits.warn("seven words of a test's name", (name for name in names if name.count("_") > 7))


def test_rules_of_distribution_match_tests() -> None:
    assert distribution.unused_rules() == []


def test_slow_tests_are_in_recognised_files() -> None:
    """`make test-slow` imports only the files that `may_be_slow` recognises by their text."""
    helpers = {path: text for path, text in TESTS.items() if not path.name.startswith("test_")}
    marked = [path.name for path, text in helpers.items() if "mark.slow" in text]
    assert marked == ["mistakes.py"]  # tests of DatabaseContract
    heirs = [
        path for path, text in TESTS.items() if re.search(r"^class Test.*\bDatabaseContract\b", text, re.M)
    ]
    assert len(heirs) == 4 and all(map(distribution.may_be_slow, heirs))
    assert distribution.selects_slow("slow and not nightly") and not distribution.selects_slow("not slow")
