"""The notation of positions in options and output."""

import pytest

from cqrs_cli.errors import UsageError
from cqrs_cli.kafka.position_notation import NamedPosition, format_position, parse_position


def test_positions_name_a_record() -> None:
    assert format_position(3, 250) == "3@250"
    assert format_position(3, 250, "checkout:order") == "checkout:order:3@250"
    assert parse_position("--fail", "order:3@250") == NamedPosition("", "order", 3, 250)
    assert parse_position("--skip", "checkout:order:3@250") == NamedPosition("checkout", "order", 3, 250)


@pytest.mark.parametrize(
    "text", ["", "order", "order:3", "order@3", "order:x@1", ":3@1", "a:b:c:3@1", "o:3@²"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--fail: .* is not a position in a topic"):
        parse_position("--fail", text)
