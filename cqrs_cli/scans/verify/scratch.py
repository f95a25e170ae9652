"""The temporary files of a verification."""

import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from cqrs_cli.proof.partition import Scratch
from cqrs_cli.scans.verify.checkpoint_files import TRACES, LmdbFolders
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.trace_index import TraceIndex


def open_scratch(
    stack: ExitStack, window: int, checkpoint_folders: LmdbFolders | None
) -> tuple[Scratch, list[TraceIndex]]:
    """Open the stores in a temporary folder (TMPDIR), or in `checkpoint_folders`. They take about 400 bytes for each
    command. `window`: the dedup window, ms.

    Temporary files are unlinked after they are opened, so that a killed task leaves no files.
    """
    with tempfile.TemporaryDirectory(prefix="cqrs-verify-") as folder:
        folders = checkpoint_folders or _new_folders(Path(folder))
        traces = [stack.enter_context(closing(TraceIndex(path))) for path in folders.traces]
        store = LmdbStore(folders.store, window)
    stack.callback(store.close_without_sync)
    return Scratch(traces[0], traces[1], traces[2], store), traces


def with_new_indexes(stack: ExitStack, scratch: Scratch) -> Scratch:
    """Return the stores with new temporary indexes, for another partition."""
    with tempfile.TemporaryDirectory(prefix="cqrs-verify-") as folder:
        folders = _new_folders(Path(folder))
        traces = [stack.enter_context(closing(TraceIndex(path))) for path in folders.traces]
    return scratch._replace(outcomes=traces[0], events=traces[1], dead_letters=traces[2])


def _new_folders(folder: Path) -> LmdbFolders:
    folders = LmdbFolders(folder / "dedup", tuple(folder / name for name in TRACES))
    for path in (folders.store, *folders.traces):
        path.mkdir()
    return folders
