"""Documents point at what exists: files, and names in the code."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "compose/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
TEXTS = [document.read_text(encoding="utf-8") for document in DOCUMENTS]

#: `jobs.claim.judge`: a dotted name in code style that begins with a part of the package.
_NAME = re.compile(r"`((?:core|jobs|kafka|proof|state)(?:\.\w+)+)`")

#: `tests/jobs/test_owner.py::test_…`: a test as pytest names it.
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")

NAMED = {named for text in TEXTS for named in _TEST.findall(text)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_within_the_repository_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("name", sorted({name for text in TEXTS for name in _NAME.findall(text)}))
def test_a_name_in_a_document_exists(name: str) -> None:
    part, module, *attributes = name.split(".")
    found: object = importlib.import_module(f"cqrs_cli.{part}.{module}")
    for attribute in attributes:
        found = getattr(found, attribute)


@pytest.mark.parametrize(("file", "test"), sorted(NAMED))
def test_a_test_named_in_a_document_exists(file: str, test: str) -> None:
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


def test_every_guarantee_names_a_test() -> None:
    text = (ROOT / "docs/guarantees.md").read_text(encoding="utf-8")
    promises, _, _ = text.partition("## What is not promised")
    _, *sections = promises.split("\n## ")
    assert [section.splitlines()[0] for section in sections if not _TEST.search(section)] == []
