"""The child process that copies, uploads and downloads checkpoints for a task.

The task continues to decide meanwhile, and can kill the process if the checkpoint store does not answer.

The process gets its request on stdin, and answers with lines of JSON on stdout.
"""

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from cqrs_cli import failpoints
from cqrs_cli.deciding.checkpoints.fetch import fetch_checkpoint
from cqrs_cli.deciding.checkpoints.source import CheckpointSource
from cqrs_cli.deciding.checkpoints.write import write_checkpoint
from cqrs_cli.errors import CqrsError
from cqrs_cli.observer import message_listener, observing

#: Added to the niceness of the process, because deciding has priority.
_NICENESS = 10

#: Seconds between two lines about the progress of a download.
_PROGRESS_INTERVAL = 1.0

#: Seconds to wait for the end of a killed process.
_KILL_TIMEOUT = 2.0

#: The maximal length of a note or an error, in characters.
_MAX_NOTE_LENGTH = 1_000


class ChildReport(msgspec.Struct, omit_defaults=True):
    """A line that a child process prints: a note, an error about a partition, the progress of a download, or the newest
    checkpoint of a partition.

    Samples: `{"downloaded":52428800}`, `{"source_index":2,"error":"…"}`
    """

    source_index: int = -1  # the partition's index in `WriteRequest.sources`
    note: str = ""
    error: str = ""
    downloaded: int = 0  # bytes
    written: int = 0  # time of the checkpoint, ms
    aggregates: int = 0  # number of aggregates in the checkpoint
    size: int = 0  # of the checkpoint, bytes
    sha256: str = ""  # of the checkpoint


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A request to write a checkpoint of each source, unless its newest checkpoint is younger than `interval`."""

    sources: list[CheckpointSource]
    interval: float  # seconds


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A request to download a checkpoint into `folder`. `rejected`: SHA-256s of checkpoints that failed before."""

    source: CheckpointSource
    rejected: frozenset[str]
    folder: Path


def start_child(request: WriteRequest | FetchRequest) -> "subprocess.Popen[bytes]":
    """Start a child process with a request. Signals of this process do not reach it; its stdout is a pipe."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    child = subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve_request; serve_request()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    assert child.stdin is not None
    try:
        with child.stdin as pipe:
            pickle.dump(request, pipe)
    except BrokenPipeError:
        pass  # the process has ended; its exit code is read later
    child.stdin = None  # otherwise `communicate` would flush the closed pipe
    return child


def parse_reports(text: bytes) -> Iterator[ChildReport]:
    """Yield the reports of a child process. Truncated lines, and lines that a library printed, are skipped."""
    for line in text.splitlines():
        with suppress(msgspec.DecodeError):
            yield msgspec.json.decode(line, type=ChildReport)


def kill_child(child: "subprocess.Popen[bytes]") -> None:
    """Kill a child process. A process that waits for a silent file system cannot die, so the wait is limited."""
    child.kill()
    if child.stdout is not None:
        child.stdout.close()
    with suppress(subprocess.TimeoutExpired):
        child.wait(_KILL_TIMEOUT)


def _print_report(**members: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(ChildReport(**members)) + b"\n")
    sys.stdout.buffer.flush()


def _write(request: WriteRequest) -> None:
    """Write the checkpoints, and print a report about each source."""
    for index, source in enumerate(request.sources):
        try:
            newest = write_checkpoint(source, request.interval)
        except CqrsError as error:
            _print_report(source_index=index, error=str(error)[:_MAX_NOTE_LENGTH])
        else:
            _print_report(source_index=index, written=0 if newest is None else newest.written)


def _fetch(request: FetchRequest) -> None:
    """Download a checkpoint. Print its progress, and at the end an error or the facts about the checkpoint."""
    reported_at = 0.0

    def report_progress(downloaded: int) -> None:
        nonlocal reported_at
        if time.monotonic() - reported_at > _PROGRESS_INTERVAL:
            reported_at = time.monotonic()
            _print_report(downloaded=downloaded)

    def report(text: str) -> None:
        _print_report(note=text[:_MAX_NOTE_LENGTH])

    try:
        with observing(message_listener(report)):
            manifest = fetch_checkpoint(request.source, request.rejected, request.folder, report_progress)
    except CqrsError as error:
        _print_report(error=str(error)[:_MAX_NOTE_LENGTH])
        return
    if manifest is not None:
        _print_report(
            sha256=manifest.sha256,
            written=manifest.written,
            aggregates=manifest.aggregates,
            size=manifest.size,
        )


def serve_request() -> None:
    """Execute the request on stdin, in a child process."""
    request = pickle.load(sys.stdin.buffer)  # noqa: S301  (from the parent process)
    failpoints.arm()
    if isinstance(request, WriteRequest):
        os.nice(_NICENESS)
        _write(request)
    else:
        _fetch(request)
