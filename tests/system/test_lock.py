from pathlib import Path

import pytest

from cqrs_cli.errors import UnavailableError
from cqrs_cli.system.lock import file_lock


def test_second_holder_waits_then_fails(tmp_path: Path) -> None:
    messages: list[str] = []
    with file_lock(tmp_path / "lock", lambda: None, timeout=1):  # noqa: SIM117
        with pytest.raises(UnavailableError, match=r"another command has held .*lock"):
            with file_lock(tmp_path / "lock", lambda: messages.append("waiting"), timeout=0.3):
                raise AssertionError("both hold it")
    assert messages == ["waiting"]


def test_lock_is_freed_after_errors(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), file_lock(tmp_path / "lock", lambda: None, timeout=1):
        raise ZeroDivisionError
    with file_lock(tmp_path / "lock", lambda: None, timeout=0):
        pass
