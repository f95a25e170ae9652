"""The figures as a picture: a bar with the median of each measured value."""

from typing import Any
from xml.etree import ElementTree

from benchmarks.picture import picture
from benchmarks.report import medians

_SVG = "{http://www.w3.org/2000/svg}"


def document(benchmark: str, figure: str, **values: list[float]) -> dict[str, Any]:
    """Return the output of a benchmark: a row for each run, and the medians."""
    rows = [{"what": what, figure: value} for what, runs in values.items() for value in runs]
    return {"benchmark": benchmark, "rows": [*rows, *medians(rows)]}


def picture_texts(*documents: dict[str, Any]) -> list[str | None]:
    """Return the texts of a picture, from top to bottom."""
    return [text.text for text in ElementTree.fromstring(picture(documents)).iter(f"{_SVG}text")]


def test_bars_show_medians() -> None:
    texts = picture_texts(
        document("replay", "events_per_s", ours=[100_000.0, 300_000.0, 200_000.0], theirs=[50_000.0])
    )
    assert texts[1:] == ["ours", "200,000 ", "theirs", "50,000 "]


def test_panels_without_figures_are_omitted() -> None:
    texts = picture_texts(document("backlog", "commands_per_s", ours=[1.0]))
    assert len(texts) == 3


def test_texts_are_escaped() -> None:
    assert "a < b & c" in picture_texts(document("replay", "events_per_s", **{"a < b & c": [1.0]}))
