"""Selects the newest checkpoint that agrees with the log, and downloads it."""

from collections.abc import Callable, Collection
from pathlib import Path

from cqrs_cli import failpoints
from cqrs_cli.deciding.checkpoints.source import CheckpointSource
from cqrs_cli.errors import UnavailableError
from cqrs_cli.state.checkpoint.checkpoints import DamagedError
from cqrs_cli.state.checkpoint.manifest import Manifest
from cqrs_cli.state.environment import DATA_FILE


def fetch_checkpoint(
    source: CheckpointSource,
    refused: Collection[str],
    into: Path,
    note: Callable[[str], None],
    progress: Callable[[int], None] = lambda done: None,
) -> Manifest | None:
    """Download LMDB's file of the best checkpoint into the folder `into`; return None if no checkpoint can be used.

    `refused`: SHA-256s of data that failed before. `note` gets a line for each checkpoint that is skipped, also after a
    failed download. Raises `UnavailableError` if the store cannot list its checkpoints, or the broker does not answer.
    """
    checkpoints, place = source.checkpoints(), source.log.log_name("commands")
    found = sorted(checkpoints.manifests(note), key=lambda one: one.positions.commands, reverse=True)
    if not found:
        return None
    ends, loss = source.ends(), source.loss()
    for manifest in found:
        reason = (
            "it failed before" if manifest.sha256 in refused else source.mismatch_reason(manifest, ends, loss)
        )
        if not reason:
            try:
                checkpoints.download(manifest, into / DATA_FILE, progress)
            except (DamagedError, UnavailableError) as error:
                reason = error.message
            else:
                failpoints.reached("checkpoint.fetched")
                return manifest
        note(f"{place}: {manifest} is not used: {reason}")
    return None
