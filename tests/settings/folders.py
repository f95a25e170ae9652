"""Folders with settings, and the errors that they cause."""

from pathlib import Path

import pytest

from cqrs_cli.errors import CqrsError
from cqrs_cli.settings.settings import load_settings


def write_project(folder: Path, cqrs: str | None = None, pyproject: str | None = None) -> Path:
    if cqrs is not None:
        (folder / "cqrs.toml").write_text(cqrs)
    if pyproject is not None:
        (folder / "pyproject.toml").write_text(pyproject)
    return folder


def settings_error(folder: Path, **flags: object) -> CqrsError:
    with pytest.raises(CqrsError) as raised:
        load_settings(flags, folder)
    return raised.value
