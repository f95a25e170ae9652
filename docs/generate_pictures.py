"""Draws `docs/pictures/*.svg` from what the commands print on a terminal: on a Kafka and a Spark of their own.

python -m docs.generate_pictures [demo | run | top | trace]…
"""

import fcntl
import io
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from docs.animation import Frame, moving

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(__file__).with_name("pictures")

#: Pictures, with the command line that each shows.
PICTURES = {"demo": "cqrs demo", "run": "cqrs run", "top": "cqrs top", "trace": "cqrs trace order-9"}

WIDTH, HEIGHT = 118, 40

#: As after `. .venv/bin/activate`: `cqrs` is on the path.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
}
COMMAND = [sys.executable, "-m", "cqrs_cli"]

#: An escape's numbers and letter, or a character.
_PART = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|.", re.DOTALL)


class Screen:
    """A terminal's screen: what is left of the characters that a program wrote."""

    def __init__(self) -> None:
        self._lines: list[list[tuple[str, str]]] = [[]]  # each character with the colours before it
        self._row = self._column = 0
        self._style = ""

    def write(self, text: str) -> None:
        """Take in what a program wrote; no escape may be cut in two."""
        for part in _PART.finditer(text):
            if part[2]:
                self._control(part[1], part[2])
            else:
                self._character(part[0])

    def _control(self, numbers: str, letter: str) -> None:
        number = int(numbers) if numbers.isdigit() else 1
        if letter == "m":
            self._style = "" if numbers in ("", "0") else f"{self._style}\x1b[{numbers}m"
        elif letter == "K":
            del self._lines[self._row][0 if numbers == "2" else self._column :]
        elif letter == "A":
            self._row = max(0, self._row - number)
        elif letter == "H":
            self._row = self._column = 0
        elif letter == "J" or (letter == "h" and numbers == "?1049"):
            self._lines, self._row, self._column = [[]], 0, 0

    def _character(self, one: str) -> None:
        if one == "\r":
            self._column = 0
        elif one == "\n":
            self._row += 1
            if self._row == len(self._lines):
                self._lines.append([])
        elif one.isprintable():
            line = self._lines[self._row]
            line += [(" ", "")] * (self._column - len(line))
            line[self._column : self._column + 1] = [(one, self._style)]
            self._column += 1

    def lines(self) -> list[str]:
        """The lines with their colours, without empty ones at the end."""
        drawn = ["".join(map(_coloured, groupby(line, itemgetter(1)))) for line in self._lines]
        while drawn and not drawn[-1].strip():
            drawn.pop()
        return drawn

    def plain(self) -> str:
        """The text without colours."""
        return "\n".join("".join(one for one, _ in line).rstrip() for line in self._lines)


def _coloured(run: tuple[str, Iterable[tuple[str, str]]]) -> str:
    """Characters of one style."""
    style, characters = run
    text = "".join(one for one, _ in characters)
    return f"{style}{text}\x1b[0m" if style else text


def svg(name: str, lines: Sequence[str]) -> str:
    """The picture of some lines. It loads nothing: fonts are the reader's own."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, crop=True, overflow="ellipsis")
    bare = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    drawn = console.export_svg(title=PICTURES[name], code_format=bare, unique_id=f"cqrs-{name}")
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


class Program:
    """`cqrs` on a terminal of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        os.set_blocking(self._ours, False)
        self.screen, self._rest = Screen(), ""
        self.frames: list[Frame] = []
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        self._process = started(folder, *arguments, start_new_session=True, **streams)
        os.close(theirs)

    def look(self) -> str:
        """The text on the screen now."""
        try:
            while drawn := os.read(self._ours, 100_000):
                text = self._rest + drawn.decode(errors="ignore")
                cut = re.search(r"\x1b(\[[?0-9;]*)?$", text)
                self._rest = cut[0] if cut else ""
                self.screen.write(text[: cut.start()] if cut else text)
        except OSError:
            pass  # nothing there now, or the program has ended
        if not self.frames or self.frames[-1][1] != self.screen.lines():
            self.frames.append((time.monotonic(), self.screen.lines()))
        return self.screen.plain()

    def until(self, seen: Callable[[str], object], within: float = 180.0) -> list[str]:
        """The lines on the screen once they are as wanted."""
        deadline = time.monotonic() + within
        while not seen(self.look()):
            if time.monotonic() > deadline or self._process.poll() not in (None, 0):
                raise SystemExit(f"never seen:\n{self.screen.plain()}")
            time.sleep(0.02)
        return self.screen.lines()

    def rest(self) -> list[str]:
        """All lines, once it has ended."""
        return self.until(lambda _: self._process.poll() is not None)

    def stop(self) -> None:
        """Ctrl-C, and wait for the end."""
        self._process.send_signal(signal.SIGINT)
        self.rest()


def started(folder: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """A command at work in a folder."""
    environment = {**ENVIRONMENT, "TERM": "xterm-256color"}
    return subprocess.Popen([*COMMAND, *arguments], cwd=folder, env=environment, text=True, **options)


def cqrs(folder: Path, *arguments: str) -> str:
    """The output of a command off a terminal; raises `SystemExit` if it fails."""
    process = started(folder, *arguments, stdout=subprocess.PIPE)
    printed, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"cqrs {' '.join(arguments)}: exit code {process.returncode}")
    return printed


@contextmanager
def project() -> Iterator[Path]:
    """A project with the aggregates of this repository, and a Kafka that is stopped with the block."""
    with tempfile.TemporaryDirectory(prefix="cqrs-pictures-") as root:
        folder = Path(root)
        (folder / "cqrs.toml").touch()
        (folder / "aggregates").mkdir()
        for name in ("__init__", "bank_account", "order"):
            shutil.copy(ROOT / "aggregates" / f"{name}.py", folder / "aggregates")
        try:
            yield folder
        finally:
            cqrs(folder, "kafka", "stop")


def busy(folder: Path) -> dict[str, list[str]]:
    """A run at work, and `top` beside it, while commands come."""
    cqrs(folder, "init", "bank_account", "order", "-q")
    rows = [("Open", f"acc-{number}", {"owner": "Ada"}) for number in range(2000)]
    rows += [("Deposit", f"acc-{number % 2000}", {"amount": 5}) for number in range(60_000)]
    rows += [("Withdraw", f"acc-{number % 2000}", {"amount": 900}) for number in range(3000)]
    lines = [
        {"type": f"bank_account.{kind}", "subject": subject, "data": data} for kind, subject, data in rows
    ]
    (folder / "commands.ndjson").write_text("\n".join(map(json.dumps, lines)))
    run, top = Program(folder, "run", "bank_account", "order"), Program(folder, "top", "--every", "500ms")
    try:
        top.until(lambda text: "bank_account 3" in text)
        run.until(lambda text: re.search(r"decid|commands", text))
        sending = started(folder, "send", "--file", "commands.ndjson", "-q", stdout=subprocess.DEVNULL)
        seen = {"run": run.until(lambda text: re.search(r"[1-9][0-9,]{3,} commands/s", text))}
        seen["top"] = top.until(lambda text: "rejected or failed in the last minute" in text)
        sending.wait()
        return seen
    finally:
        top.stop()
        run.stop()


def chain(folder: Path) -> list[str]:
    """An order, and the withdrawal that it caused."""
    _send(folder, "order.Place", "42", correlationid="order-9", data={"customer": "Ada"})
    _send(folder, "bank_account.Open", "ada", data={"owner": "Ada"})
    cqrs(folder, "run", "--once", "bank_account", "order", "-q")
    event = json.loads(cqrs(folder, "tail", "order", "events", "-n", "1", "-o", "json"))["message"]
    caused = {"correlationid": "order-9", "causationid": event["id"], "data": {"amount": 30}}
    for kind in ("Withdraw", "Deposit"):
        _send(folder, f"bank_account.{kind}", "ada", **caused)
    cqrs(folder, "run", "--once", "bank_account", "order", "-q")
    return Program(folder, "trace", "order-9").rest()


def _send(folder: Path, kind: str, subject: str, **attributes: object) -> None:
    (folder / "line.ndjson").write_text(json.dumps({"type": kind, "subject": subject, **attributes}))
    cqrs(folder, "send", "--file", "line.ndjson", "-q")


def main(names: Sequence[str] = tuple(PICTURES)) -> None:
    """Draw them."""
    TARGET.mkdir(exist_ok=True)
    drawn: dict[str, str] = {}
    with project() as folder:
        if "demo" in names:
            demo = Program(folder, "demo")
            demo.rest()
            drawn["demo"] = moving(demo.frames, PICTURES["demo"], "cqrs-demo", WIDTH, HEIGHT)
        if {"run", "top"} & {*names}:
            drawn |= {name: svg(name, lines) for name, lines in busy(folder).items()}
        if "trace" in names:
            drawn["trace"] = svg("trace", chain(folder))
    for name in names:
        (TARGET / f"{name}.svg").write_text(drawn[name], encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or tuple(PICTURES))
