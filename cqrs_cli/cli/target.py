"""The folder that `--out` names."""

from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from cqrs_cli.jobs.engine.staging import FileFormat, Target


def target_folder(out: str, format: "FileFormat") -> "Target":
    """The place to write to; raises `UsageError` for a full local folder, before Spark is started."""
    from cqrs_cli.jobs.engine.staging import Target, refuse_full

    if "://" in out:
        return Target(out, format)
    folder = Path(out).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{out} is a file", "name a folder after --out")
    refuse_full(out, folder.exists() and any(folder.iterdir()))
    return Target(str(folder), format)
