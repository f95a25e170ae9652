"""Writes the figures of docs/figures.md, docs/figures.svg and README.md from the newest results of `make figures`.

python -m docs.generate_figures

`tests/test_figures_page.py` fails when they are not up to date.
"""

import json
import re
import statistics
import textwrap
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results"
PAGE, PICTURE, README = ROOT / "docs/figures.md", ROOT / "docs/figures.svg", ROOT / "README.md"

#: The systems as the rows of the benchmarks call them; the last one recognises repeated ids.
SYSTEMS = ("cqrs", "Kafka Streams", "Kafka Streams with dedup")

PAGE_HEADER = "| what | cqrs | Kafka Streams | with ids |\n|---|---|---|---|\n"
README_HEADER = "| what | cqrs | Kafka Streams |\n|---|---|---|\n"

WIDTH, LABEL, BAR, GAP, TOP = 900, 380, 18, 8, 34
COLOURS = ("#2f6fb0", "#b8bec6", "#b8bec6")

#: Values of one system: one, or the p50 and the p99; empty if it was not measured.
Values = tuple[float, ...]


class Results:
    """The results of one commit: medians of the rows of each part."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.parts: dict[str, Any] = document["parts"]

    def medians(self, part: str, what: str, *names: str, factor: float = 1.0) -> Values:
        """Return the medians of these figures in the rows called `what`; nothing if there is no such row."""
        documents = self.parts.get(part, {"documents": []})["documents"]
        rows = [row for document in documents for row in document["rows"] if row["what"] == what]
        return tuple(factor * statistics.median(row[name] for row in rows) for name in names) if rows else ()

    def option(self, part: str, name: str) -> str:
        """Return an option of the part's command: `option("replay", "--events")` is "1,000,000"."""
        found = re.search(rf" {name} (\d+)", self.parts[part]["command"])
        return f"{int(found[1]):,}" if found else ""

    def first_load(self) -> float:
        """Return the load average before the first benchmark. Before a later one it includes the benchmarks before."""
        return float(next(iter(self.parts.values()))["load"])

    def load_warning(self) -> str:
        """Return a warning if other programs had work for more than all cores, else an empty text."""
        is_busy = self.first_load() > self.document["machine"]["cores"]
        return (
            "Other programs used the machine at the same time: the figures are preliminary."
            if is_busy
            else ""
        )


class Figure(NamedTuple):
    """A row of the table, and a group of bars: the values of `SYSTEMS`, as `unit` formats them."""

    what: str
    unit: Callable[[float], str]
    values: tuple[Values, ...]

    def texts(self) -> list[str]:
        """Return the text of each system: `4.2 / 20 ms`; empty without values."""
        return [self._text(values) for values in self.values] + [""] * (3 - len(self.values))

    def _text(self, values: Values) -> str:
        *first, last = [self.unit(value) for value in values] or [""]
        return " / ".join([*(text.split()[0] for text in first), last])

    def first(self) -> "Figure":
        """Return the figure with the first value of each system."""
        return self._replace(values=tuple(values[:1] for values in self.values))


def rate(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}/s"


def seconds(value: float) -> str:
    return f"{value:,.2f} s" if value < 10 else f"{value:,.0f} s"


def milliseconds(value: float) -> str:
    return f"{value:.1f} ms" if value < 10 else f"{value:,.0f} ms"


def megabytes(value: float) -> str:
    return f"{value:,.0f} MB"


def figures(results: Results) -> list[Figure]:
    """Return the rows of the table for all parts that have results."""
    return [figure for figure in _all_figures(results) if any(figure.values)]


def _all_figures(results: Results) -> Iterator[Figure]:
    if "backlog" in results.parts:
        yield from _backlog(results)
    latency_parts = [part for part in results.parts if part.startswith("latency-")]
    for part in sorted(latency_parts, key=lambda part: int(part.removeprefix("latency-"))):
        yield from _latency(results, part)
    yield from _takeover(results)
    if "replay" in results.parts:
        rows = ("replay", "Kafka Streams restores its store")
        values = tuple(results.medians("replay", what, "events_per_s") for what in rows)
        what = f"replay of {results.option('replay', '--events')} events; Kafka Streams restores states"
        yield Figure(what, rate, values)
    if "verify" in results.parts:
        what = f"`cqrs verify` of {results.option('verify', '--commands')} commands"
        yield Figure(what, rate, (results.medians("verify", "verify", "commands_per_s"),))
    reactions = results.medians("process", "process", "events_per_s")
    yield Figure("a process manager that sends a command for each event", rate, (reactions,))
    for command in ("cqrs --help", "cqrs send"):
        yield Figure(f"duration of `{command}`", seconds, (results.medians("startup", command, "seconds"),))


def _backlog(results: Results) -> Iterator[Figure]:
    def figure(what: str, unit: Callable[[float], str], name: str, warmth: str = "warm") -> Figure:
        rows = (f"{system}, {warmth} broker" for system in SYSTEMS)
        return Figure(what, unit, tuple(results.medians("backlog", row, name) for row in rows))

    commands, accounts = (results.option("backlog", name) for name in ("--commands", "--accounts"))
    yield figure(f"backlog of {commands} deposits over {accounts} accounts", rate, "commands_per_s")
    yield figure("the same on a new broker", rate, "commands_per_s", "cold")
    # Microseconds of a command are seconds of a million commands, and bytes are megabytes.
    yield figure("processor time for 1,000,000 commands, with the broker's", seconds, "cpu_us_per_command")
    yield figure("bytes on the wire for 1,000,000 commands", megabytes, "wire_bytes_per_command")


def _latency(results: Results, part: str) -> Iterator[Figure]:
    partitions = results.option(part, "--partitions")
    for commands in re.findall(r"--rate (\d+)", results.parts[part]["command"]):
        values = tuple(results.medians(part, f"{name} at {commands}/s", "p50", "p99") for name in SYSTEMS)
        yield Figure(f"latency at {int(commands):,}/s, {partitions} partitions", milliseconds, values)


def _takeover(results: Results) -> Iterator[Figure]:
    def longest(part: str, case: str) -> Values:
        return results.medians(part, f"{case} at 200/s on 4", "longest")

    wait = "longest wait at 200/s"
    yield Figure(f"{wait}: a newer run takes over", seconds, (longest("takeover", "newer run"),))
    what = f"{wait}: a worker or an instance is killed"
    yield Figure(what, seconds, (longest("takeover", "worker"), (), longest("takeover-peer", "peer, 6 s")))
    yield Figure(f"{wait}: the run is killed, with a standby", seconds, (longest("takeover", "standby"),))


def page(results: Results, text: str) -> str:
    """Return the text of docs/figures.md with these results."""
    rows = [
        f"| {figure.what} | {' | '.join(figure.texts())} |\n".replace("  |", " |")
        for figure in figures(results)
    ]
    return _with_section(text, "Results", f"{_origin(results)}\n\n{PAGE_HEADER}{''.join(rows)}")


def _origin(results: Results) -> str:
    """Return the sentences with date, commit, machine and versions."""
    document = results.document
    machine, versions = document["machine"], document["versions"]
    sentences = (
        f"Measured on {document['date']}: version {document['version']}, commit `{document['commit'][:12]}`",
        f"on {machine['cores']} cores ({machine['processor']}) with {machine['memory_gib']} GiB,",
        f"{machine['system']}; load average before the first benchmark {results.first_load():.1f}.",
        results.load_warning(),
        f"Versions: {', '.join(f'{name} {version}' for name, version in versions.items())}.",
        f"[All runs](../benchmarks/results/{document['version']}.json).",
    )
    return _paragraph(sentences)


def readme(results: Results, text: str) -> str:
    """Return the text of README.md with these results: the backlog, the first latency, and the replay."""
    rows: dict[str, list[str]] = {}
    for figure in figures(results):
        texts = [text.removesuffix("/s") for text in figure.first().texts()]
        rows.setdefault(figure.what.split()[0], texts)
    backlog, latency, replay = (rows[name] for name in ("backlog", "latency", "replay"))
    peer = f"{backlog[1]}; {backlog[2]} if it recognises repeated ids" if backlog[1] else ""
    sentences = (
        f"Measured on {results.document['machine']['cores']} cores, which also run the broker.",
        results.load_warning(),
        "[docs/figures.md](docs/figures.md) has the commands.",
    )
    table = (
        f"| commands decided per second | {backlog[0]} | {peer} |\n"
        f"| from command sent to outcome read, p50 at 200/s | {latency[0]} | {latency[1]} |\n"
        f"| events replayed per second | {replay[0]} | |\n"
    ).replace("  |", " |")
    return _with_section(text, "Figures", f"{_paragraph(sentences)}\n\n{README_HEADER}{table}")


def _paragraph(sentences: Sequence[str]) -> str:
    return textwrap.fill(" ".join(filter(None, sentences)), 120, break_on_hyphens=False)


def _with_section(text: str, title: str, content: str) -> str:
    """Return the text with another content of the section with this title."""
    replacement = f"## {title}\n\n{content}\n"
    return re.sub(rf"^## {title}\n.*?(?=^## )", lambda _: replacement, text, flags=re.DOTALL | re.MULTILINE)


def picture(results: Results) -> str:
    """Return the figures with a comparison as SVG: a group of bars for each figure."""
    parts: list[str] = []
    height = 10
    for figure in figures(results):
        if any(figure.values[1:]):
            parts += _bars(figure, height)
            height += TOP + sum(map(bool, figure.values)) * (BAR + GAP) + 16
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="13">'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    )
    return "\n".join([head, *parts, "</svg>", ""])


def _bars(figure: Figure, top: int) -> Iterator[str]:
    """Yield a title and a bar for each measured system; a bar shows the first value."""
    better = "more" if figure.unit is rate else "less"
    title = escape(f"{figure.what[0].upper()}{figure.what[1:]} ({better} is better)")
    yield f'<text x="10" y="{top + 18}" font-weight="600" fill="#1c2733">{title}</text>'
    largest = max(values[0] for values in figure.values if values) or 1.0
    y = top + TOP
    for name, colour, values, text in zip(SYSTEMS, COLOURS, figure.values, figure.texts(), strict=False):
        if values:
            width = max(1.0, (WIDTH - LABEL - 110) * values[0] / largest)
            yield f'<text x="{LABEL - 8}" y="{y + 14}" text-anchor="end" fill="#1c2733">{name}</text>'
            yield f'<rect x="{LABEL}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
            yield f'<text x="{LABEL + width + 6:.1f}" y="{y + 14}" fill="#1c2733">{text}</text>'
            y += BAR + GAP


def newest_results() -> Results:
    """Return the results of the newest date in `benchmarks/results`."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")]
    return Results(max(documents, key=lambda document: str(document["date"])))


def main() -> None:
    """Write the page, the picture and the table of README."""
    results = newest_results()
    for path, generate in ((PAGE, page), (README, readme)):
        path.write_text(generate(results, path.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURE.write_text(picture(results), encoding="utf-8")


if __name__ == "__main__":
    main()
