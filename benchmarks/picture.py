"""Draw the output of benchmarks as one SVG: `python -m benchmarks.picture backlog.json latency.json … > figures.svg`.

Each panel has a bar for each measured `what`, with the median of several runs.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

WIDTH, LABEL, BAR, GAP, TOP = 900, 380, 18, 8, 34
_CQRS_COLOUR, _PEER_COLOUR = "#2f6fb0", "#b8bec6"


class Panel(NamedTuple):
    """One figure of one benchmark, with its unit."""

    benchmark: str
    figure: str
    title: str
    unit: str


PANELS = (
    Panel("backlog", "commands_per_s", "Backlog: commands decided a second (more is better)", ""),
    Panel(
        "backlog", "cpu_us_per_command", "Processor time a command, broker included (less is better)", "µs"
    ),
    Panel("latency in ms", "p50", "Command sent to outcome read, p50 (less is better)", "ms"),
    Panel("latency in ms", "p99", "Command sent to outcome read, p99 (less is better)", "ms"),
    Panel("replay", "events_per_s", "Replay: events folded a second (more is better)", ""),
)


def main() -> None:
    """Read the documents, print the picture."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("documents", nargs="+", type=Path, help="what benchmarks printed to stdout")
    arguments = options.parse_args()
    print(picture([json.loads(path.read_text()) for path in arguments.documents]))


def picture(documents: Sequence[dict[str, Any]]) -> str:
    """Return the SVG; panels without figures are left out."""
    parts: list[str] = []
    height = 10
    for panel in PANELS:
        bars = list(_bars(documents, panel))
        if bars:
            parts += _panel(panel, bars, height)
            height += TOP + len(bars) * (BAR + GAP) + 16
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="13">'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    )
    return "\n".join([head, *parts, "</svg>"])


def _bars(documents: Sequence[dict[str, Any]], panel: Panel) -> Iterator[tuple[str, float]]:
    """Yield each measured `what` with its median, or the value of a single run."""
    rows: dict[str, float] = {}
    for document in documents:
        if document["benchmark"] == panel.benchmark:
            for row in document["rows"]:  # the medians are the last rows
                if panel.figure in row:
                    rows[row["what"].partition(", median of ")[0]] = float(row[panel.figure])
    yield from rows.items()


def _panel(panel: Panel, bars: list[tuple[str, float]], top: int) -> Iterator[str]:
    yield f'<text x="10" y="{top + 18}" font-weight="600" fill="#1c2733">{escape(panel.title)}</text>'
    largest = max(value for _, value in bars) or 1.0
    for number, (label, value) in enumerate(bars):
        y = top + TOP + number * (BAR + GAP)
        width = max(1.0, (WIDTH - LABEL - 110) * value / largest)
        colour = _CQRS_COLOUR if not label.startswith("Kafka Streams") else _PEER_COLOUR
        yield f'<text x="{LABEL - 8}" y="{y + 14}" text-anchor="end" fill="#1c2733">{escape(label)}</text>'
        yield f'<rect x="{LABEL}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
        text = f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"
        yield f'<text x="{LABEL + width + 6:.1f}" y="{y + 14}" fill="#1c2733">{text} {panel.unit}</text>'


if __name__ == "__main__":
    main()
