"""Selects the newest checkpoint that agrees with the log, and downloads it."""

from collections.abc import Callable, Collection
from pathlib import Path

from cqrs_cli.deciding.checkpoints.source import CheckpointSource
from cqrs_cli.errors import UnavailableError
from cqrs_cli.observer import reached
from cqrs_cli.state.checkpoint.checkpoints import DamagedCheckpointError
from cqrs_cli.state.checkpoint.manifest import Manifest
from cqrs_cli.state.environment import DATA_FILE


def fetch_checkpoint(
    source: CheckpointSource,
    rejected: Collection[str],
    folder: Path,
    report_progress: Callable[[int], None] = lambda downloaded_bytes: None,
) -> Manifest | None:
    """Download LMDB's file of the newest usable checkpoint into `folder`; return None if no checkpoint can be used.

    `rejected`: SHA-256s of checkpoints that failed before. The operator gets a message about each checkpoint that
    is not used. Raises `UnavailableError` if the store cannot list its checkpoints, or the broker does not answer.
    """
    checkpoints, log_name = source.checkpoints(), source.log.log_name("commands")
    manifests = sorted(
        checkpoints.manifests(), key=lambda manifest: manifest.positions.commands, reverse=True
    )
    if not manifests:
        return None
    ends, loss = source.ends(), source.loss()
    for manifest in manifests:
        reason = (
            "it failed before"
            if manifest.sha256 in rejected
            else source.mismatch_reason(manifest, ends, loss)
        )
        if not reason:
            try:
                checkpoints.download(manifest, folder / DATA_FILE, report_progress)
            except (DamagedCheckpointError, UnavailableError) as error:
                reason = error.message
            else:
                reached("checkpoint.fetched")
                return manifest
        reached("message", text=f"{log_name}: {manifest} is not used: {reason}")
    return None
