"""Projects with process managers or projections written by a test."""

from pathlib import Path

from tests.support import ROOT


def write_process(folder: Path, text: str, name: str = "mine") -> Path:
    """Write a project with one process manager, and return its folder."""
    return _write(folder, "processes", text, name)


def write_projection(folder: Path, text: str, name: str = "mine") -> Path:
    """Write a project with one projection, and return its folder."""
    return _write(folder, "projections", text, name)


def _write(folder: Path, kind: str, text: str, name: str) -> Path:
    (folder / "cqrs.toml").touch()
    (folder / kind).mkdir(exist_ok=True)
    (folder / f"{kind}/{name}.py").write_text(text)
    if not (folder / "aggregates").exists():
        (folder / "aggregates").symlink_to(ROOT / "aggregates")
    return folder
