from pathlib import Path

import pytest

from tests.cli.conftest import Cqrs


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["bank_account", "--continue", "x/", "--state"], "--state folds all events, --continue reads"),
        (["--continue", "x/"], "a folder of --continue is for one aggregate"),
        (["bank_account", "--continue", "yesterday"], "a folder is written with a slash; write --continue"),
        (["bank_account", "--erased", "--state"], "--erased is a proof of its own"),
        (["bank_account", "--look-in", "x"], "--look-in looks for what was erased; add --erased"),
        (["--state", "process", "checkout"], "'process' is a command and comes first: cqrs verify process"),
        (["counter", "process"], "else write cqrs verify -- process; see cqrs verify --help"),
        (["process"], "which process?; name it; an aggregate that is called process: cqrs verify -- process"),
        (["--", "process"], "no aggregate 'process'"),
    ],
)
def test_a_wrong_call_ends_with_2(cqrs: Cqrs, arguments: list[str], complaint: str) -> None:
    said = cqrs("verify", *arguments)
    assert (said.status, said.out) == (2, "")
    assert complaint in said.err


def test_nothing_is_made_of_a_time(cqrs: Cqrs, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    assert cqrs("verify", "bank_account", "--since", "yesterday").status == 2
    assert cqrs("verify", "bank_account", "--continue", "yesterday").status == 2
    assert sorted(tmp_path.iterdir()) == before
