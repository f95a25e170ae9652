"""The memory of this machine and of this process."""

import os
import resource
from pathlib import Path

import pytest

from cqrs_cli.system.memory import memory_share, process_memory


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="nobody says what a process uses")
def test_own_memory_is_counted() -> None:
    before = process_memory()
    held = b"x" * (64 << 20)
    assert process_memory() - before > len(held) * 0.9


def test_unknown_memory_is_nothing(tmp_path: Path) -> None:
    assert process_memory(tmp_path / "statm") == 0


@pytest.mark.parametrize(("limit", "is_less"), [("1048576", True), ("max", False)])
def test_container_has_less(tmp_path: Path, limit: str, is_less: bool) -> None:
    (tmp_path / "max").write_text(f"{limit}\n")
    assert (
        memory_share((tmp_path / "max", tmp_path / "gone")) == (1 << 20) // (2 * (os.cpu_count() or 1))
    ) == is_less


def test_limited_process_takes_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1 << 20, 1 << 20))
    assert memory_share() == 1 << 19
