"""docs/figures.md, its picture and README's table equal the newest results of `make figures`."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.figures import Counts, Part, parts, run_parts
from docs import generate_figures as generator
from tests.support import ROOT
from tests.support.page import Page

RESULTS = generator.newest_results()
FACTS = {"version": "1.0", "commit": "c0ffee"}
FIRST_WORDS = ["backlog", "the", "processor", "bytes", "latency", "replay"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("path", ["docs/figures.md", "README.md"])
def test_tables_equal_the_results(path: str) -> None:
    generate = generator.page if path == "docs/figures.md" else generator.readme
    text = Page(path).text
    assert generate(RESULTS, text) == text
    without_digits = re.sub(r"\d", "?", text)
    assert generate(RESULTS, without_digits) != without_digits


def test_picture_equals_the_results() -> None:
    assert (ROOT / "docs/figures.svg").read_text(encoding="utf-8") == generator.picture(RESULTS)


def test_named_benchmarks_exist() -> None:
    text = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    measured = [part.arguments[1] for part in parts(Counts(), with_peer=True)]
    modules = {*measured, *re.findall(r"python -m (benchmarks\.\w+)", text)}
    assert [name for name in modules if not (ROOT / f"{name.replace('.', '/')}.py").is_file()] == []


def results(part: str, command: str, *rows: dict[str, Any]) -> generator.Results:
    """Return results of one part."""
    return generator.Results({"parts": {part: {"command": command, "documents": [{"rows": [*rows]}]}}})


def test_figures_are_medians() -> None:
    rows = [{"what": "replay", "events_per_s": value} for value in (1000.0, 3000.0, 2000.0)]
    (figure,) = generator.figures(results("replay", "python -m benchmarks.replay --events 5000", *rows))
    assert figure.what.startswith("replay of 5,000 events")
    assert figure.texts() == ["2,000/s", "", ""]


def test_latencies_are_ordered_by_partitions() -> None:
    """A part that failed, and was run again, is the last part of the results."""
    rows = [{"what": "cqrs at 200/s", "p50": 4.0, "p99": 9.0}]
    commands = {f"latency-{count}": f"latency --partitions {count} --rate 200" for count in (32, 12, 4)}
    measured = {name: results(name, command, *rows).parts[name] for name, command in commands.items()}
    titles = [figure.what for figure in generator.figures(generator.Results({"parts": measured}))]
    assert titles == [f"latency at 200/s, {count} partitions" for count in (4, 12, 32)]


def test_picture_compares_with_the_peer() -> None:
    rows = [{"what": f"{system} at 200/s", "p50": 4.0, "p99": 9.0} for system in ("cqrs", "Kafka Streams")]
    command = "python -m benchmarks.latency --partitions 4 --rate 200"
    svg = ElementTree.fromstring(generator.picture(results("latency-4", command, *rows)))
    texts = [text.text for text in svg.iter(f"{SVG}text")]
    title = "Latency at 200/s, 4 partitions (less is better)"
    assert texts == [title, "cqrs", "4.0 / 9.0 ms", "Kafka Streams", "4.0 / 9.0 ms"]


def fake_part(folder: Path, name: str) -> Part:
    """Return a part that adds an `x` to the file `NAME.calls`, and fails while `NAME.obstacle` exists."""
    files = {kind: str(folder / f"{name}.{kind}") for kind in ("calls", "obstacle")}
    program = (
        f"import os; open({files['calls']!r}, 'a').write('x')\n"
        f"assert not os.path.exists({files['obstacle']!r}); print('{{}}')"
    )
    return Part(name, ("-c", program))


@pytest.mark.program
def test_interrupted_measurements_continue(tmp_path: Path) -> None:
    """The second call runs only the failed part, and the third call none."""
    file, first, second = tmp_path / "results.json", fake_part(tmp_path, "a"), fake_part(tmp_path, "b")
    (tmp_path / "b.obstacle").touch()
    assert not run_parts([first, second], file, FACTS)
    (tmp_path / "b.obstacle").unlink()
    assert run_parts([first, second], file, FACTS)
    assert run_parts([first, second], file, FACTS)
    assert [(tmp_path / f"{name}.calls").read_text() for name in "ab"] == ["x", "xx"]


@pytest.mark.program
def test_results_of_other_commits_are_deleted(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    assert run_parts([fake_part(tmp_path, "a"), fake_part(tmp_path, "b")], file, FACTS)
    assert run_parts([fake_part(tmp_path, "a")], file, {**FACTS, "commit": "decaf"})
    assert list(json.loads(file.read_text())["parts"]) == ["a"]
    assert (tmp_path / "a.calls").read_text() == "xx"


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.nightly
def test_quick_figures_fill_the_page(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks.figures", "--quick", "--results", str(file)]
    names = ["backlog", "latency-4", "replay"]
    subprocess.run([*command, *(f"--part={name}" for name in names)], cwd=ROOT, check=True)
    measured = generator.Results(json.loads(file.read_text()))
    assert list(measured.parts) == names
    assert [figure.what.split()[0] for figure in generator.figures(measured)] == FIRST_WORDS
    readme = generator.readme(measured, "## Figures\n## Limits\n")
    assert len(re.findall(r"^\| [a-z].* \| \d.* \| \|$", readme, re.MULTILINE)) == 3
