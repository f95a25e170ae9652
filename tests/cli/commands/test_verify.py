from pathlib import Path

import pytest

from tests.cli.conftest import Cqrs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["bank_account", "--incremental", "x", "--state"],
            "--state folds all events, --incremental only new events",
        ),
        (["--incremental", "x"], "a folder of --incremental is for one aggregate"),
        (["bank_account", "--erased", "--state"], "--erased is a verification of its own"),
        (["bank_account", "--scan-path", "x"], "--scan-path searches for erased data; add --erased"),
        (["--process", "checkout", "--state"], "--erased need an aggregate; name it"),
        (["process"], "no aggregate 'process'"),
        (["--process", "nothing"], "no process 'nothing'"),
    ],
)
def test_a_wrong_call_ends_with_2(cqrs: Cqrs, arguments: list[str], message: str) -> None:
    result = cqrs("verify", *arguments)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


def test_invalid_time_creates_no_files(cqrs: Cqrs, tmp_path: Path) -> None:
    files = sorted(tmp_path.iterdir())
    assert cqrs("verify", "bank_account", "--since", "yesterday").status == 2
    assert sorted(tmp_path.iterdir()) == files
