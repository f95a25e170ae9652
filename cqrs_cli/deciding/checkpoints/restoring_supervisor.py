"""A supervisor whose new shards start from a checkpoint, if there is a usable checkpoint."""

import os
import selectors
import time
from collections.abc import Iterator
from contextlib import closing
from functools import cached_property

from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.deciding.checkpoints.child_process import (
    ChildReport,
    FetchRequest,
    kill_child,
    parse_reports,
    start_child,
)
from cqrs_cli.deciding.checkpoints.source import CheckpointSource, checkpoint_source
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.observer import reached
from cqrs_cli.state.checkpoint.temporary_folder import temporary_folder
from cqrs_cli.state.errors import CorruptError
from cqrs_cli.state.open_store import OpenStore
from cqrs_cli.state.shard import install_shard


class RestoringSupervisor(DecidingSupervisor):
    """A supervisor whose new shards start from a checkpoint. A checkpoint that led to a damaged shard is not used
    again.
    """

    _rejected: frozenset[str] = frozenset()  # SHA-256s of checkpoints that are not used again
    _used_sha256 = ""  # of the checkpoint from which the shard started

    @cached_property
    def _source(self) -> CheckpointSource:
        return checkpoint_source(self.plan, self.partition, self.aggregate)

    def open_store(self) -> OpenStore:
        """Open the shard; a new shard starts from a checkpoint, if possible. Raises the errors of `open_shard`."""
        if self._used_sha256:  # a shard is opened again only after damage
            self._rejected |= {self._used_sha256}
            self._used_sha256 = ""
        open_result = super().open_store()
        if not open_result.is_new:
            return open_result
        reached("owner.step", step="restore")
        path, log_name = self._source.shard_folder, self._source.log.log_name("commands")
        with temporary_folder(path, "fetch") as folder:
            checkpoint_report = self._download(FetchRequest(self._source, self._rejected, folder))
            if checkpoint_report is None:
                return open_result
            open_result.store.close()
            checkpoint = f"the checkpoint of {rfc3339(checkpoint_report.written)}"
            try:
                store = install_shard(path, folder, self._source.identity, limits=self.timing.shard_limits)
            except CorruptError as error:
                self._rejected |= {checkpoint_report.sha256}
                self.add_note(f"{log_name}: {checkpoint} is not used: {error.message}")
                return super().open_store()
        self._used_sha256 = checkpoint_report.sha256
        self.add_note(
            f"{log_name}: began with {checkpoint} (aggregates: {checkpoint_report.aggregates:,}, "
            f"{checkpoint_report.size / 1e6:,.1f} MB)"
        )
        return OpenStore(store, is_new=False)

    def _download(self, request: FetchRequest) -> ChildReport | None:
        """Download a checkpoint into the folder of the request.

        Return its report; None if there is no checkpoint.
        """
        checkpoint_report: ChildReport | None = None
        for report in self._reports(request):
            if report.note or report.error:
                log_name = self._source.log.log_name("commands")
                self.add_note(report.note or f"{log_name}: no checkpoint is used: {report.error}")
            if report.sha256:
                checkpoint_report = report
        return checkpoint_report

    def _reports(self, request: FetchRequest) -> Iterator[ChildReport]:
        """Yield the reports of a child process for the request. End if the process ends or does not answer in time, or
        if the task is stopped.
        """
        child = start_child(request)
        assert child.stdout is not None
        try:
            with closing(child.stdout) as pipe, selectors.DefaultSelector() as selector:
                selector.register(pipe, selectors.EVENT_READ)
                last_answer_at, partial_line = time.monotonic(), b""
                timeout = self.timing.checkpoint_answer_timeout
                while not self.stopping.is_set():
                    if selector.select(0.2):
                        data = os.read(pipe.fileno(), 65536)
                        if not data:
                            if child.wait():
                                yield ChildReport(error=f"its process ended with code {child.returncode}")
                            break
                        last_answer_at = time.monotonic()
                        complete_lines, _, partial_line = (partial_line + data).rpartition(b"\n")
                        yield from parse_reports(complete_lines)
                    elif time.monotonic() - last_answer_at > timeout:
                        yield ChildReport(error=f"{request.source.uri} has not answered for {timeout:.0f} s")
                        break
        finally:
            kill_child(child)
