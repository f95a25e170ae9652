"""Writes a checkpoint of a shard while its owner decides: a compact snapshot, which is then uploaded."""

import time
from contextlib import closing

from cqrs_cli.deciding.checkpoints.source import CheckpointSource
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError
from cqrs_cli.observer import reached
from cqrs_cli.state.checkpoint.manifest import Manifest
from cqrs_cli.state.checkpoint.temporary_folder import temporary_folder
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shard import open_readonly


def write_checkpoint(source: CheckpointSource, interval: float = 0.0) -> Manifest | None:
    """Write a checkpoint, and return its manifest. If the newest checkpoint is younger than `interval` seconds, or the
    shard has not changed since that checkpoint, write nothing, and return the manifest of the newest checkpoint.

    Return None if the shard is not on this machine, cannot be trusted, or contains no decision. Raises `CqrsError` if
    the checkpoint cannot be written.
    """
    checkpoints = source.checkpoints()
    newest = checkpoints.newest()
    newest_of_identity = newest if newest is not None and newest.identity == source.identity else None
    if newest_of_identity is not None and time.time() - newest_of_identity.written / 1000 < interval:
        return newest_of_identity
    store = open_readonly(source.shard_folder)
    if store is None:
        return None
    with closing(store):
        if differences := source.identity.differences(store.identity()):
            raise ConfigurationError(
                f"the shard in {source.shard_folder} belongs to another log or other code: {differences}"
            )
        if not store.positions().commands:
            return None
        if newest_of_identity is not None and store.positions() == newest_of_identity.positions:
            return newest_of_identity
        loss = source.loss()  # read again after the copy: an operator may accept a loss during the copy
        with temporary_folder(source.shard_folder, "copy") as copy_folder:
            store.copy(copy_folder)
            reached("checkpoint.copied")
            with closing(LmdbStore(copy_folder, source.identity.window_ms, readonly=True)) as copied_store:
                positions, aggregates = copied_store.positions(), copied_store.count()
            if mismatch := source.history_mismatch(positions):
                raise ContradictionError(
                    f"the shard in {source.shard_folder} was folded from records that the log has lost: {mismatch}"
                )
            if source.loss() != loss:
                raise CqrsError(
                    "a loss was accepted while the shard was copied", "the next checkpoint will contain it"
                )

            def make_manifest(size: int, digest: str) -> Manifest:
                return Manifest(
                    written=checkpoints.next_time(newest),
                    identity=source.identity,
                    positions=positions,
                    loss=loss,
                    aggregates=aggregates,
                    size=size,
                    sha256=digest,
                )

            return checkpoints.write(copy_folder / "data.mdb", make_manifest, source.keep)
