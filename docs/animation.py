"""A moving picture of a terminal, as one SVG: every line once, shown from when it appears until it changes.

It runs without a script, and stands still, at its end, for readers who want nothing to move.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

#: Seconds that the picture waits at most for the next change, and at its end before it begins again.
LONGEST, LAST = 1.2, 8.0

#: The spinner's characters: they turn all the time.
_SPINNER = re.compile("[\u2800-\u28ff]")

Frame = tuple[float, Sequence[str]]  # when, and the lines with their colours


@dataclass
class _Line:
    """A line at its row, and the fractions of the time in which it is shown."""

    row: int
    text: str
    shown: list[tuple[float, float]]

    def keyframes(self, name: str) -> str:
        """The CSS that shows it."""
        steps = {0.0: "hidden", 100.0: "visible" if self.shown[-1][1] == 100 else "hidden"}
        for begin, end in self.shown:
            steps[begin] = "visible"
            if end < 100:
                steps[end] = "hidden"
        return _keyframes(name, {at: f"visibility:{how}" for at, how in steps.items()})


def calm(frames: Sequence[Frame]) -> list[Frame]:
    """The frames that show something new, at the pace of a reader: long waits are cut."""
    kept: list[Frame] = []
    before, now, last = None, 0.0, 0.0
    for at, lines in frames:
        seen = _SPINNER.sub("", "\n".join(lines))
        if seen != before:
            now += min(at - last, LONGEST) if kept else 0.0
            kept.append((now, lines))
            before, last = seen, at
    return kept


def moving(frames: Sequence[Frame], title: str, name: str, width: int, height: int) -> str:
    """The picture of `frames`, `height` rows at a time: it scrolls as a terminal does."""
    frames = calm(frames)
    length = frames[-1][0] + LAST
    lines = _lines([(100 * at / length, lines) for at, lines in frames])
    tops = [(100 * at / length, max(0, len(lines) - height)) for at, lines in frames]
    matrix, defined, styles = _export(
        [line.text for line in lines], name, width, "{matrix}", "{lines}", "{styles}"
    )
    line_height = float(re.search(r"line-height: ([\d.]+)px", _frame(title, name, width, height))[1])  # type: ignore[index]
    rules = [styles, f".{name}-still{{visibility:hidden}}"]
    moves = [
        _keyframes(
            f"{name}-up", {at: f"transform:translateY({-top * line_height:.1f}px)" for at, top in tops}
        )
    ]
    groups = []
    for number, (line, drawn) in enumerate(zip(lines, _by_line(matrix, len(lines)), strict=True)):
        moves.append(line.keyframes(f"{name}-k{number}"))
        moves.append(f".{name}-g{number}{{animation:{name}-k{number} {length:.1f}s step-end infinite}}")
        still = "" if line.shown[-1][1] == 100 else f" {name}-still"
        shift = f' transform="translate(0,{(line.row - number) * line_height:.1f})"'
        groups.append(f'<g class="{name}-g{number}{still}"{shift}>{drawn}</g>')
    rules.append(f".{name}-up{{transform:translateY({-tops[-1][1] * line_height:.1f}px)}}")
    moves.append(f".{name}-up{{animation:{name}-up {length:.1f}s step-end infinite}}")
    rules.append("@media (prefers-reduced-motion: no-preference){" + "".join(moves) + "}")
    picture = _frame(title, name, width, height)
    picture = picture.replace("/*styles*/", "\n".join(rules)).replace("<!--lines-->", defined)
    body = f'<g class="{name}-up">\n' + "\n".join(groups) + "\n</g>"
    return "\n".join(line.rstrip() for line in picture.replace("<!--matrix-->", body).splitlines()) + "\n"


def _lines(frames: Sequence[Frame]) -> list[_Line]:
    found: dict[tuple[int, str], _Line] = {}
    for (at, lines), end in zip(frames, [*(at for at, _ in frames[1:]), 100.0], strict=True):
        for row, text in enumerate(lines):
            if text.strip():
                line = found.setdefault((row, _SPINNER.sub("⠿", text)), _Line(row, text, []))
                if line.shown and line.shown[-1][1] == at:
                    line.shown[-1] = (line.shown[-1][0], end)
                else:
                    line.shown.append((at, end))
    return list(found.values())


def _frame(title: str, name: str, width: int, height: int) -> str:
    """An empty terminal, with comments where lines and rules go."""
    bare = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    holes = {
        "{styles}": "/*styles*/",
        "{lines}": "<!--lines-->",
        "{matrix}": "<!--matrix-->",
        "{backgrounds}": "",
    }
    for field, hole in holes.items():
        bare = bare.replace(field, hole)
    return _console([""] * height, width).export_svg(title=title, code_format=bare, unique_id=name)


def _export(lines: Sequence[str], name: str, width: int, *fields: str) -> list[str]:
    """The parts of the picture of all lines below each other."""
    drawn = _console(lines, width).export_svg(code_format="\0".join(fields), unique_id=name)
    return drawn.split("\0")


def _console(lines: Sequence[str], width: int) -> Console:
    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, crop=True, overflow="ellipsis")
    return console


def _by_line(matrix: str, count: int) -> list[str]:
    """The texts of each line."""
    texts = [""] * count
    for text in re.findall(r"<text .*?</text>", matrix, re.DOTALL):
        texts[int(re.search(r"-line-(\d+)\)", text)[1])] += text  # type: ignore[index]
    return texts


def _keyframes(name: str, steps: dict[float, str]) -> str:
    return f"@keyframes {name}{{" + "".join(f"{at:.2f}%{{{how}}}" for at, how in sorted(steps.items())) + "}"
