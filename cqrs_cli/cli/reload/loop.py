"""The loop of `cqrs run --reload`: a run as a child process, watched files, and a restart if the rules allow it."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from cqrs_cli.cli.reload.files import CHECKED_CODE, STARTED_FD, load_contracts
from cqrs_cli.cli.reload.rules import Contracts, objections
from cqrs_cli.errors import CqrsError, TakenOverError
from cqrs_cli.runs.source_files import Sources, changed_paths, read_sources, sources_digest

#: Seconds between two polls of the files. Files count as changed if two polls in a row find the same new content.
POLL_INTERVAL = 0.3


class Reloader:
    """Starts a run, and starts it again when its code changes, even if the run has ended by itself.

    `command`: the run without --reload. `names`: the aggregates whose contracts are compared; None means all.
    `in_memory`: the owners keep states in memory, so no shard holds states of old code.
    """

    def __init__(
        self,
        command: Sequence[str],
        names: Sequence[str] | None,
        package: str,
        root: Path,
        report: Callable[[str], None],
        in_memory: bool = False,
    ) -> None:
        self._in_memory = in_memory
        self._command, self._names, self._package, self._root = list(command), names, package, root
        self._report = report
        self._child: subprocess.Popen[bytes] | None = None
        #: The run writes a byte to this pipe once it has loaded the checked code; None after the byte was read.
        self._start_pipe: BinaryIO | None = None
        #: The files and contracts of the running code.
        self._sources: Sources = {}
        self._contracts: Contracts = {}

    def run(self) -> int:
        """Watch until Ctrl-C, or until another run takes over; then stop the run, and return its exit status."""
        self._sources = checked_sources = read_sources(self._root, self._package)
        self._contracts = load_contracts(self._names, self._package, self._root)
        try:
            self._start()
            while self._exit_status() != TakenOverError.exit_code:
                checked_sources = self._reload_if_changed(checked_sources)
                time.sleep(POLL_INTERVAL)
            return TakenOverError.exit_code
        finally:
            self._stop()

    def _start(self) -> None:
        # A process group of its own: the terminal does not send Ctrl-C to it, so it gets a signal only once, from here.
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._close_start_pipe()
        self._start_pipe = os.fdopen(reader, "rb", buffering=0)
        variables = {CHECKED_CODE: sources_digest(self._sources), STARTED_FD: str(writer)}
        try:
            self._child = subprocess.Popen(
                self._command, env={**os.environ, **variables}, process_group=0, pass_fds=[writer]
            )
        finally:
            os.close(writer)

    def _is_starting(self) -> bool:
        """Return True until the run has loaded its code. If the checked files have changed by then, the run exits."""
        if self._start_pipe is not None and self._start_pipe.read(1):
            self._close_start_pipe()
        return self._start_pipe is not None

    def _close_start_pipe(self) -> None:
        if self._start_pipe is not None:
            self._start_pipe.close()
            self._start_pipe = None

    def _stop(self) -> None:
        """Stop the run as Ctrl-C does, and wait for its end. A second Ctrl-C is forwarded."""
        child, self._child = self._child, None
        self._close_start_pipe()
        if child is None:
            return
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        while True:
            try:
                child.wait()
                return
            except KeyboardInterrupt:
                child.send_signal(signal.SIGTERM)

    def _exit_status(self) -> int | None:
        """Return the exit status of a run that has just ended by itself, else None. Report it, unless another run took
        over.
        """
        if self._child is None or (status := self._child.poll()) is None:
            return None
        self._child = None
        if status != TakenOverError.exit_code:
            self._report(f"the run ended with {status}; it starts again when a file changes")
        return status

    def _reload_if_changed(self, checked_sources: Sources) -> Sources:
        """Restart the run if the files have changed, are stable, and the rules allow it; return the checked files."""
        current = read_sources(self._root, self._package)
        if current == checked_sources:
            return checked_sources
        time.sleep(POLL_INTERVAL)
        if read_sources(self._root, self._package) != current:
            return checked_sources  # an editor is still writing
        changed_files = changed_paths(self._sources, current, self._root)
        if not changed_files and self._child is not None:
            self._report("the files match the running code again")
            return current
        objection_texts, contracts = self._objections()
        if objection_texts:
            consequence = "the run continues with the previous code" if self._child else "no run is active"
            if self._child is not None and self._is_starting():
                self._stop()
                consequence = "the run had not loaded its code yet; it starts once the code is accepted"
            self._report(f"changed: {', '.join(changed_files)}; not reloaded, {consequence}")
            for objection in objection_texts:
                self._report(f"  {objection}")
            return current
        self._report(f"changed: {', '.join(changed_files) or 'nothing since the last start'}; restarting")
        self._stop()
        self._sources, self._contracts = current, contracts
        self._start()
        return current

    def _objections(self) -> tuple[list[str], Contracts]:
        try:
            current = load_contracts(self._names, self._package, self._root)
        except CqrsError as error:
            return [str(error)], {}
        return objections(self._contracts, current, self._in_memory), current
