"""The file of tokens and their rights."""

from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.gateway.token import Access, find_access, read_tokens

TOKEN, OTHER_TOKEN = "0123456789abcdef", "fedcba9876543210"


def test_lines_give_rights_and_names(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# people\n\n{TOKEN}\n  {OTHER_TOKEN} name=ann send operate \n")
    tokens = read_tokens(file)
    assert find_access(tokens, TOKEN) == Access(frozenset({"read", "send"}))
    assert find_access(tokens, OTHER_TOKEN) == Access(frozenset({"read", "send", "operate"}), "ann")
    assert find_access(tokens, "") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it has no token"),
        ("short read", "line 1: the token is too weak"),
        (f"{TOKEN} reed", "there is no right 'reed'"),
        (f"{TOKEN} operate", "the right operate needs a name"),
        (f"{TOKEN} name= read", "not one name"),
        (f"{TOKEN}\n{TOKEN} read", "line 2: the token occurs twice"),
    ],
)
def test_wrong_lines_are_errors(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        read_tokens(file)
