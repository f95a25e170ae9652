"""The pictures of the command line exist, and are drawn from a terminal's output."""

import re
import runpy
from typing import Any
from xml.etree import ElementTree

import pytest

from docs.animation import calm, moving
from tests.support import ROOT
from tests.support.page import Page

GENERATOR: dict[str, Any] = runpy.run_path(str(ROOT / "docs/generate_pictures.py"))
PICTURES = sorted(GENERATOR["PICTURES"])
_TEXT = "{http://www.w3.org/2000/svg}text"


def picture_text(name: str) -> str:
    svg = (GENERATOR["TARGET"] / f"{name}.svg").read_text(encoding="utf-8")
    text_parts = [text.text or "" for text in ElementTree.fromstring(svg).iter(_TEXT)]
    return " ".join(text_parts).replace("\xa0", " ")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("demo", ["VERSION_CONFLICT", "The accounts, folded from their events"]),
        ("run", ["commands", "lag"]),
        ("top", ["decided/s", "bank_account 3", "rejected or failed in the last minute", "q quit"]),
        ("trace", ["order-9", "Deposited", "accepted"]),
    ],
)
def test_pictures_show_their_command(name: str, expected: list[str]) -> None:
    text = picture_text(name)
    assert GENERATOR["PICTURES"][name] in text
    assert [part for part in expected if part not in text] == []


def test_pictures_load_nothing() -> None:
    """A reader's browser must not download fonts."""
    for name in PICTURES:
        text = (GENERATOR["TARGET"] / f"{name}.svg").read_text(encoding="utf-8")
        assert re.findall(r"url\((?!#)", text) == []
        assert "<script" not in text


def test_pages_show_all_pictures() -> None:
    pages = Page("README.md").text + Page("docs/cli.md").text
    assert sorted(re.findall(r"pictures/(\w+)\.svg", pages)) == PICTURES
    assert sorted(path.stem for path in GENERATOR["TARGET"].glob("*.svg")) == PICTURES


@pytest.mark.parametrize(
    ("output", "expected_lines"),
    [
        ("a\r\nb", ["a", "b"]),
        ("working …\r\x1b[2Kdone\r\n", ["done"]),
        ("one\r\ntwo\x1b[1A\r\x1b[2KONE", ["ONE", "two"]),
        ("\x1b[?25l\x1b[?1049h\x1b[Hold\x1b[Hnew", ["new"]),
        ("left over\rright\x1b[K", ["right"]),
        ("\x1b[31mred\x1b[0m", ["\x1b[31mred\x1b[0m"]),
    ],
)
def test_screen_has_the_visible_lines(output: str, expected_lines: list[str]) -> None:
    screen = GENERATOR["Screen"]()
    screen.write(output)
    assert screen.lines() == expected_lines


FRAMES = [
    (0.0, ["\u280b starting"]),
    (0.1, ["\u2819 starting"]),
    (60.0, ["\x1b[32mdone\x1b[0m"]),
    (60.1, ["\x1b[32mdone\x1b[0m", "two", "three"]),
]


def test_long_waits_are_cut() -> None:
    assert [(time, len(lines)) for time, lines in calm(FRAMES)] == [
        (0.0, 1),
        (1.2, 1),
        (pytest.approx(1.3), 3),
    ]


def test_moving_pictures_hide_earlier_frames() -> None:
    svg = ElementTree.fromstring(moving(FRAMES, "title", "m", width=20, height=2))
    groups = [group for group in svg.iter(_TEXT.replace("text", "g")) if "m-g" in group.get("class", "")]
    texts = ["".join(text.text or "" for text in group.iter(_TEXT)).strip() for group in groups]
    assert texts == ["\u280b\xa0starting", "done", "two", "three"]
    assert ["m-still" in group.get("class", "") for group in groups] == [True, False, False, False]


def test_moving_pictures_scroll() -> None:
    assert ".m-up{transform:translateY(-" in moving(FRAMES, "title", "m", width=20, height=2)
