"""The site has every page, and all its links and anchors resolve."""

import importlib.util
from pathlib import Path

import pytest

from docs.site import broken, build, first_sentence, listed, pages
from tests.support import ROOT


def test_menu_has_every_page() -> None:
    names = {name for name in pages() if not name.startswith("source-")}
    assert sorted(listed()) == sorted(names)


def test_linked_files_become_pages() -> None:
    assert "decider = cqrs.Decider" in pages()["source-aggregates-reservation.py.md"]


@pytest.mark.program
@pytest.mark.skipif(not importlib.util.find_spec("zensical"), reason="needs the extra docs")
def test_built_site_has_no_broken_links() -> None:
    assert build() == []
    assert (ROOT / "site/llms.txt").read_text().count("\n- [") == len(listed())


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h1 id="top"></h1><a href="b.html#end"></a><a href="#top"></a>')
    (tmp_path / "b.html").write_text('<a href="a.html#nowhere"></a><a href="c.html"></a>')
    assert broken(tmp_path) == [
        "a.html: b.html#end has no such anchor",
        "b.html: a.html#nowhere has no such anchor",
        "b.html: c.html",
    ]


def test_first_sentences_are_plain() -> None:
    assert first_sentence("# Title\n\nSee [it](x.md), in `code`. Then more.\n") == "See it, in `code`."
