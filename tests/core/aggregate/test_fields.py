from cqrs_cli.core.aggregate.fields import fields_of
from tests.client.shopping import Place


def test_fields_are_spelled_as_written() -> None:
    assert [field.spelled() for field in fields_of(Place)] == [
        "customer: Customer",
        "lines: list[Line] = []",
        "tag: frozenset[str] = []",
        "notes: dict[str, Line] = {}",
        'colour: "red" | "blue" = "red"',
        'speed: "slow" | "fast" | null = null',
        "pair: tuple[int, str] | null = null",
        "extra: Any = null",
    ]


def test_nested_fields_know_their_place() -> None:
    customer, lines, _, notes, *_ = fields_of(Place)
    assert (customer.holds, lines.holds, notes.holds) == ("", "[]", "[KEY]")
    assert [field.name for field in customer.fields] == ["name", "zip", "phones"]
    quantity = lines.fields[1]
    assert (quantity.type, quantity.about, quantity.default) == ("int ≥ 1", "How many of it.", "1")


def test_type_within_itself_ends() -> None:
    _, lines, *_ = fields_of(Place)
    assert lines.fields[2].fields == ()
