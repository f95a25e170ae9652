import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cqrs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--", " ; "], "there is no query"),
        (["SELECT 1", "--at", "soon"], "--at: not a time: 'soon'"),
        (["SELECT 1", "--at", "@full/file"], "--at: full/file has no offsets of this project's event topics"),
        (["SELECT 1", "--format", "parquet"], "parquet needs a folder; name one: --out DIR"),
        (["SELECT 1", "--format", "table", "--out", "new"], "a table is for the screen"),
        (["SELECT 1", "--out", "full"], "full exists and is not empty"),
        (["SELECT 1; SELECT 2", "--out", "new"], "--out takes one query"),
        (["SELECT 1", "-X", "client.id=me"], "sql takes no -X"),
    ],
)
def test_a_wrong_call_ends_with_2(cqrs: Cqrs, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    result = cqrs("sql", *arguments)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


READ_QUERIES_PROGRAM = """
import sys
from pathlib import Path
from cqrs_cli.cli.commands.sql import _typed_queries
print(list(_typed_queries(Path(sys.argv[1]), [])))
"""


@pytest.mark.program
@pytest.mark.parametrize("exists", [True, False])
def test_history_is_readable_by_its_owner_only(tmp_path: Path, exists: bool) -> None:
    history = tmp_path / ".cqrs/sql_history"
    if exists:
        history.parent.mkdir()
        history.touch(0o644)
    process = subprocess.run(
        [sys.executable, "-c", READ_QUERIES_PROGRAM, str(history)],
        input="SELECT 1;\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.endswith("['SELECT 1']\n")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
