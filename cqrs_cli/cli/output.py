"""Prints data to stdout and everything else to stderr, as text for people or as JSON for programs."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from cqrs_cli.cli.tracebacks import redacted_traceback, traceback_text
from cqrs_cli.core.aggregate.errors import class_name
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.errors import CqrsError
from cqrs_cli.formatting import rough_time

if TYPE_CHECKING:
    import msgspec
    from rich.console import Console, RenderableType

    from cqrs_cli.telemetry.task_reports import JobProgress

    Document = Mapping[str, Any] | msgspec.Raw
    Text = RenderableType | list[str] | Callable[[], RenderableType]

#: The level of a message.
NoteLevel = Literal["info", "warning"]

#: Seconds between two progress lines if stderr is not a terminal.
PLAIN_INTERVAL = 10.0

#: Width of the progress bar in characters.
_BAR_WIDTH = 24

#: Width of tables in characters if stdout is not a terminal: Rich would limit them to 80.
PIPE_WIDTH = 240


class Printer:
    """Prints results in one of two forms: text, or JSON documents of one line each."""

    def __init__(self, output: Literal["text", "json"] = "text", quiet: bool = False) -> None:
        self.output = output
        self.quiet = quiet
        #: True for long-running commands with a log: lines on stderr begin with time and level.
        self.timestamped = False
        #: True if an aggregate of the call has personal fields, so that errors may contain a personal value.
        self.has_personal_data = False
        #: True if stdout is a stream of JSON Lines, which contains the messages, too.
        self.streaming = False

    def print_result(self, document: "Document", text: "Text") -> None:
        """Print one result of a command: the document as a line of JSON, or the text.

        `text` may be a list of lines, or a function that returns the text and is called only for text output.
        """
        if self.output == "json":
            self.write_line(json_line(document))
            return
        if callable(text):
            text = text()
        if isinstance(text, list):
            text = "\n".join(text)
        if not isinstance(text, str):
            with self.stdout.capture() as capture:
                self.stdout.print(text)
            text = "\n".join(line.rstrip() for line in capture.get().splitlines())
        self.write_line(text.encode(errors="backslashreplace"))

    def write_line(self, line: bytes) -> None:
        """Write bytes and a line end to stdout; shown at once on a terminal, else with `flush`."""
        sys.stdout.buffer.write(line + b"\n")
        if sys.stdout.isatty():
            self.flush()

    def flush(self) -> None:
        """Flush stdout."""
        sys.stdout.flush()

    def print_note(self, text: str, level: NoteLevel = "info") -> None:
        """Print a message on stderr. If stdout is a stream of JSON Lines, the message is a line of the stream."""
        if self.quiet:
            return
        if self.streaming:
            self.print_event("note", {"level": level, "text": text})
        else:
            print(
                f"{self._timestamp()}{level}: {text}" if self.timestamped else text,
                file=sys.stderr,
                flush=True,
            )

    def print_event(self, kind: str, document: Mapping[str, Any]) -> None:
        """Write one line of a stream of JSON Lines, and flush it."""
        now = rfc3339(time.time_ns() // 1_000_000)
        self.write_line(json_line({"time": now, "kind": kind, **document}))
        self.flush()

    def _timestamp(self) -> str:
        return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} " if self.timestamped else ""

    def confirm(self, question: str) -> bool:
        """Ask for a confirmation on stderr, and return the answer; without a terminal, return True at once."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return True
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    @contextmanager
    def show_spinner(self, text: str, interval: float = PLAIN_INTERVAL) -> Iterator[Callable[[str], None]]:
        """Show a spinner during the block; without a terminal, a line every `interval` seconds. Yield a function that
        sets the text.
        """
        if self.quiet:
            yield lambda text: None
        elif not sys.stderr.isatty():
            self.print_note(f"{text} …")
            yield ProgressThrottle(self.print_note, interval)
        else:
            from rich.text import Text

            with self.stderr.status(Text(text)) as status:  # Rich always reads a spinner's string as markup
                yield lambda text: status.update(Text(text))

    @property
    def is_live(self) -> bool:
        """True if progress can be shown as a line that is redrawn: stderr is a terminal."""
        return not self.quiet and not self.streaming and sys.stderr.isatty()

    @cached_property
    def stdout(self) -> "Console":
        """Rich's console on stdout. Rich itself respects NO_COLOR and pipes."""
        return _console(width=None if sys.stdout.isatty() else PIPE_WIDTH)

    @cached_property
    def stderr(self) -> "Console":
        """Rich's console on stderr."""
        return _console(stderr=True)

    def print_error(self, error: CqrsError, cause: BaseException | None = None) -> None:
        """Print an error on stderr: one line, or one JSON document; with the traceback of `cause` if given."""
        format_traceback = redacted_traceback if self.has_personal_data else traceback_text
        traceback = "" if cause is None else format_traceback(cause)
        if self.output == "json":
            texts = {"code": error.code, "message": error.message, "hint": error.hint}
            document: dict[str, object] = {
                name: text.encode(errors="replace").decode() for name, text in texts.items()
            }
            document |= error.more
            if traceback:
                document["traceback"] = traceback
            print(json_line({"error": document}).decode(), file=sys.stderr, flush=True)
        else:
            print(
                f"{traceback}{self._timestamp()}error: {printable(_one_line(str(error)))}",
                file=sys.stderr,
                flush=True,
            )

    def error_text(self, error: Exception) -> str:
        """Return the text of an unexpected error, or only its class if the text may contain a personal value."""
        if isinstance(error, OSError):
            return str(error)
        error_class = class_name(type(error)) if self.has_personal_data else type(error).__name__
        try:
            return error_class if self.has_personal_data else f"{error_class}: {error}"
        except Exception:  # Spark's errors ask the JVM for their text, and the JVM may have exited
            return error_class


def _console(**options: Any) -> "Console":
    """Return a console that prints strings unchanged: Rich would drop `[projections]`, and replace `:bug:`."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False, **options)


class ProgressThrottle:
    """Forwards a progress text at most once in `interval` seconds, and the first text only after that time."""

    def __init__(
        self,
        forward: Callable[[str], None],
        interval: float = PLAIN_INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._forward, self._interval, self._clock = forward, interval, clock
        self._forwarded_at, self._last_text = clock(), ""

    def __call__(self, text: str) -> None:
        now = self._clock()
        if text != self._last_text and now - self._forwarded_at >= self._interval:
            self._forwarded_at, self._last_text = now, text
            self._forward(text)


def job_progress_text(title: str, progress: "JobProgress", unit: str, with_bar: bool = True) -> str:
    """Return the progress of a job on Spark in the form of `progress_text`."""
    work = progress.done, progress.offsets
    return progress_text(title, work, progress.records, unit, progress.seconds, with_bar)


def progress_text(
    title: str, work: tuple[int, int], count: int, unit: str, seconds: float, with_bar: bool = True
) -> str:
    """Return the progress of long work: the part that is done, the rate, and the remaining time at this rate.

    `work`: (done, total); `count` items of this `unit`, such as "events", took `seconds`. The bar is for terminals:
    `verifying order ━━━━━━──────────────────  25%, 1,200 records a second, 30 s left`.
    """
    done, total = work
    ratio = done / max(1, total)
    bar_text = f"{'━' * round(ratio * _BAR_WIDTH):─<{_BAR_WIDTH}} " if with_bar else ""
    text = f"{title} {bar_text}{ratio:.0%}, {count / max(seconds, 0.001):,.0f} {unit} a second"
    return f"{text}, {_remaining_text(seconds * (total - done) / done)}" if done else text


def _remaining_text(seconds: float) -> str:
    return "nearly done" if seconds < 0.5 else f"{rough_time(seconds)} left"


def json_line(document: object) -> bytes:
    """Return one line of JSON. A value without a JSON form, such as a path, is converted to text."""
    import msgspec  # help and text output do not need it

    return msgspec.json.encode(document, enc_hook=str)


def printable(text: str) -> str:
    """Escape foreign text for a terminal: control characters, which could move the cursor, become escapes."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def printable_lines(text: str) -> str:
    """Escape foreign text for a terminal, but keep its line ends."""
    return "\n".join(map(printable, text.splitlines()))


def _one_line(text: str) -> str:
    return " ".join(text.split())
