"""The loop of `cqrs run --reload`: a run as a child process, watched files, and a restart if the rules allow it."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cqrs_cli.cli.reload.files import (
    JUDGED_CODE,
    Sources,
    changed_names,
    load_contracts,
    read_sources,
    sources_digest,
)
from cqrs_cli.cli.reload.rules import Contracts, objections
from cqrs_cli.errors import CqrsError, TakenOverError

#: Seconds between two polls of the files. A change counts if a second poll finds the same content.
LOOK_EVERY = 0.3


class Reloader:
    """Keeps a run alive, and restarts it with changed code. `command` is the run without --reload."""

    def __init__(
        self,
        command: Sequence[str],
        names: Sequence[str] | None,
        package: str,
        root: Path,
        note: Callable[[str], None],
        in_memory: bool = False,
    ) -> None:
        self._in_memory = in_memory
        self._command, self._names, self._package, self._root = list(command), names, package, root
        self._note = note
        self._child: subprocess.Popen[bytes] | None = None
        self._sources: Sources = {}  # of the running code
        self._contracts: Contracts = {}

    def run(self) -> int:
        """Watch until Ctrl-C, or until another run takes over (`TakenOverError`); then stop the run."""
        self._sources = judged = read_sources(self._root, self._package)
        self._contracts = load_contracts(self._names, self._package, self._root)
        try:
            self._start()
            while True:
                self._tell_end()
                judged = self._judge(judged)
                time.sleep(LOOK_EVERY)
        finally:
            self._stop()

    def _start(self) -> None:
        # A process group of its own: the terminal does not send Ctrl-C to it, so it gets a signal only once, from here.
        environment = {**os.environ, JUDGED_CODE: sources_digest(self._sources)}
        self._child = subprocess.Popen(self._command, env=environment, process_group=0)

    def _stop(self) -> None:
        """Stop the run as Ctrl-C does, and wait for its end. A second Ctrl-C is forwarded."""
        child, self._child = self._child, None
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

    def _tell_end(self) -> None:
        """Report that the run has ended by itself. Raises `TakenOverError` if another run took over."""
        if self._child is None or (status := self._child.poll()) is None:
            return
        self._child = None
        if status == TakenOverError.exit_code:
            raise TakenOverError("another run took over", "it decides now: this one ends, too")
        self._note(f"the run ended with {status}; it starts again when a file changes")

    def _judge(self, judged: Sources) -> Sources:
        """Restart the run if the files have changed, are stable, and the rules allow it; return the checked files."""
        today = read_sources(self._root, self._package)
        if today == judged:
            return judged
        time.sleep(LOOK_EVERY)
        if read_sources(self._root, self._package) != today:
            return judged  # an editor is still writing
        names = changed_names(self._sources, today, self._root)
        if not names and self._child is not None:
            self._note("the files are again as the run has them")
            return today
        why, contracts = self._objections()
        if why:
            keeps = "the run goes on with the code before" if self._child else "nothing runs"
            self._note(f"changed: {', '.join(names)}; not reloaded, {keeps}")
            for one in why:
                self._note(f"  {one}")
            return today
        self._note(f"changed: {', '.join(names) or 'nothing'}; starting again")
        self._stop()
        self._sources, self._contracts = today, contracts
        self._start()
        return today

    def _objections(self) -> tuple[list[str], Contracts]:
        try:
            today = load_contracts(self._names, self._package, self._root)
        except CqrsError as error:
            return [str(error)], {}
        return objections(self._contracts, today, self._in_memory), today
