"""The folder of `--out`, and the `--format` of its files."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from cqrs_cli.jobs.engine.staging import FileFormat, Target


def target_folder(out: str, format: "FileFormat") -> "Target":
    """Return the folder to write to; raises `UsageError` for a local folder with files, before Spark starts."""
    from cqrs_cli.jobs.engine.staging import Target, check_empty

    if "://" in out:
        return Target(out, format)
    folder = Path(out).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{out} is a file", "name a folder after --out")
    check_empty(out, folder.exists() and any(folder.iterdir()))
    return Target(str(folder), format)


def optional_target(out: str | None, format: Literal["parquet", "json"] | None) -> "Target | None":
    """Return the folder of `--out`; None without `--out`. Raises `UsageError` for a format without a folder."""
    if out is None:
        if format is not None:
            raise UsageError("--format needs --out", "name a folder: --out DIR")
        return None
    return target_folder(out, format or "parquet")
