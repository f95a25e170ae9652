from pathlib import Path

import pytest

from tests.cli.conftest import Cqrs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bank_account"], "missing option '--out'"),
        (["bank_account", "--out", "full"], "full exists and is not empty; name a new folder"),
        (["bank_account", "--out", "full/file"], "full/file is a file; name a folder after --out"),
        (["acount", "--out", "new"], "known: bank_account"),
        (["bank_account", "--out", "new", "--personal"], "bank_account has no personal fields"),
        (["bank_account", "--out", "new", "--conf", "x"], "--conf x: no value"),
    ],
)
def test_a_wrong_call_ends_with_2(cqrs: Cqrs, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    result = cqrs("export", *arguments)
    assert (result.status, result.out) == (2, "")
    assert message in result.err
