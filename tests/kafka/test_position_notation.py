import pytest

from cqrs_cli.errors import UsageError
from cqrs_cli.kafka.position_notation import NamedPlace, parse_place, spell_position


def test_positions_name_a_record() -> None:
    assert spell_position(3, 250) == "3@250"
    assert spell_position(3, 250, "checkout:order") == "checkout:order:3@250"
    assert parse_place("--fail", "order:3@250") == NamedPlace("", "order", 3, 250)
    assert parse_place("--skip", "checkout:order:3@250") == NamedPlace("checkout", "order", 3, 250)


@pytest.mark.parametrize(
    "text", ["", "order", "order:3", "order@3", "order:x@1", ":3@1", "a:b:c:3@1", "o:3@²"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--fail: .* is not a position in a topic"):
        parse_place("--fail", text)
