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
    rejected: Collection[str],
    folder: Path,
    report: Callable[[str], None],
    report_progress: Callable[[int], None] = lambda downloaded_bytes: None,
) -> Manifest | None:
    """Download LMDB's file of the newest usable checkpoint into `folder`; return None if no checkpoint can be used.

    `rejected`: SHA-256s of checkpoints that failed before. `report` gets a line for each checkpoint that is skipped or
    cannot be downloaded. Raises `UnavailableError` if the store cannot list its checkpoints, or the broker does not
    answer.
    """
    checkpoints, log_name = source.checkpoints(), source.log.log_name("commands")
    manifests = sorted(
        checkpoints.manifests(report), key=lambda manifest: manifest.positions.commands, reverse=True
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
            except (DamagedError, UnavailableError) as error:
                reason = error.message
            else:
                failpoints.reached("checkpoint.fetched")
                return manifest
        report(f"{log_name}: {manifest} is not used: {reason}")
    return None
