"""The temporary files of a verification."""

import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from cqrs_cli.proof.partition import Scratch
from cqrs_cli.scans.verify.checkpoint_files import INDEXED_LOGS, LmdbFolders
from cqrs_cli.state.entry_index import EntryIndex
from cqrs_cli.state.lmdb_store import LmdbStore


def open_scratch(
    stack: ExitStack, dedup_window: int, lmdb_folders: LmdbFolders | None
) -> tuple[Scratch, list[EntryIndex]]:
    """Open the stores in a temporary folder (TMPDIR), or in `lmdb_folders` for a verification checkpoint. Also return
    the indexes in the order of `INDEXED_LOGS`.

    The stores take about 400 bytes for each command. `dedup_window` is in ms. Temporary files are unlinked after they
    are opened, so that a killed task leaves no files.
    """
    with tempfile.TemporaryDirectory(prefix="cqrs-verify-") as folder:
        folders = lmdb_folders or _new_folders(Path(folder))
        indexes = [stack.enter_context(closing(EntryIndex(path))) for path in folders.indexes]
        store = LmdbStore(folders.store, dedup_window)
    stack.callback(store.close_without_sync)
    return Scratch(indexes[0], indexes[1], indexes[2], store), indexes


def with_new_indexes(stack: ExitStack, scratch: Scratch) -> Scratch:
    """Return the same store of versions and ids with new temporary indexes, for another partition."""
    with tempfile.TemporaryDirectory(prefix="cqrs-verify-") as folder:
        folders = _new_folders(Path(folder))
        indexes = [stack.enter_context(closing(EntryIndex(path))) for path in folders.indexes]
    return scratch._replace(outcomes=indexes[0], events=indexes[1], dead_letters=indexes[2])


def _new_folders(folder: Path) -> LmdbFolders:
    folders = LmdbFolders(folder / "dedup", tuple(folder / name for name in INDEXED_LOGS))
    for path in (folders.store, *folders.indexes):
        path.mkdir()
    return folders
