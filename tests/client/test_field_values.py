import json
from typing import Any

import pytest

import cqrs_cli as cqrs
from cqrs_cli.client.compose import compose
from cqrs_cli.client.field_values import command_data
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import UsageError
from tests.client.shopping import SHOPPING

ADA = {"customer": {"name": "Ada"}}


def place_data(*fields: str) -> Any:
    """Return the data of a `Place` command with these fields."""
    return json.loads(compose(SHOPPING, "o-1", "Place", fields).value)["data"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["customer[zip]=04109"], {"customer": {"name": "Ada", "zip": "04109"}}),
        (
            ["customer[phones]=1", "customer[phones]=2"],
            {"customer": {"name": "Ada", "phones": ["1", "2"]}},
        ),
        (["tag=a", "tag=b"], {**ADA, "tag": ["a", "b"]}),
        (["tag[]=a", "tag[]=b"], {**ADA, "tag": ["a", "b"]}),
        (['tag:=["a"]'], {**ADA, "tag": ["a"]}),
        (
            ["lines[0][sku]=tea", "lines[0][quantity]=2", "lines[1][sku]=pot"],
            {**ADA, "lines": [{"sku": "tea", "quantity": 2}, {"sku": "pot"}]},
        ),
        (["lines[][sku]=tea", "lines[][sku]=pot"], {**ADA, "lines": [{"sku": "tea"}, {"sku": "pot"}]}),
        (
            ["lines[0][sku]=set", "lines[0][parts][0][sku]=cup"],
            {**ADA, "lines": [{"sku": "set", "parts": [{"sku": "cup"}]}]},
        ),
        (["notes[a b][sku]=tea"], {**ADA, "notes": {"a b": {"sku": "tea"}}}),
        (["extra[a][b]=1", "extra[a][c]:=1"], {**ADA, "extra": {"a": {"b": "1", "c": 1}}}),
        (["colour=blue", "speed=fast"], {**ADA, "colour": "blue", "speed": "fast"}),
        (['pair:=[1, "x"]'], {**ADA, "pair": [1, "x"]}),
    ],
)
def test_nested_fields_are_filled(fields: list[str], expected: Any) -> None:
    assert place_data("customer[name]=Ada", *fields) == expected


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("colour=green", 'colour=green: not one of "red", "blue"'),
        ('colour:="green"', 'not one of "red", "blue"'),
        ("speed=medium", 'speed=medium: not one of "slow", "fast"'),
        ("customer[street]=x", "customer has no field 'street'; Customer takes name: str"),
        ("customer=Ada", "it has fields of its own: write customer[name]=…"),
        ("customer[name]=Bob", "field 'customer[name]' is given twice"),
        ("customer[name][first]=x", "name is str: it has no [first]"),
        ("lines[a][sku]=x", "lines is a list: write lines[]=… or lines[0]=…, not lines[a]"),
        ("lines[1][sku]=x", "[1] comes before [0]: write the items in their order"),
        ("lines[0][quantity]=0", "Expected `int` >= 1"),
        ("lines[0][quantity]=1", "missing required field `sku`"),
        ("lines=x", "it has fields of its own: write lines[0][sku]=…"),
        ("pair=1", "Expected `array | null`"),
        (
            "what=1",
            "shopping.Place has no field 'what'; Place takes customer: Customer, lines: list[Line] = []",
        ),
    ],
)
def test_errors_name_the_nested_field(field: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        place_data("customer[name]=Ada", field)
    assert message in str(raised.value)


def test_list_and_item_together_are_rejected() -> None:
    with pytest.raises(UsageError, match="given twice"):
        place_data('tag:=["a"]', "tag=b", "customer[name]=Ada")


class Greet(cqrs.Command):
    name: cqrs.Personal[str]
    born: cqrs.Personal[int] = 0
    tone: str = ""
    age: int = 0

    def __post_init__(self) -> None:
        if self.tone == "unfit":
            raise ValueError(f"{self.name} does not fit")


class Greeted(cqrs.Event):
    pass


class People(cqrs.State):
    pass


def decide(command: Greet, state: People) -> list[Greeted]:
    return [Greeted()]


def evolve(state: People, event: Greeted) -> People:
    return state


PEOPLE = Aggregate.of("people", cqrs.Decider(decide, evolve, initial=People()))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("name=Ann", "Ann"), "not a field: argument 2 after Greet; write"),
        (("born=Ann",), "born: Expected `int"),
        (('born:="Ann"',), "born: Expected `int"),
        (("name=Ann", "tone=unfit"), "people.Greet: redacted: the message contains a personal value"),
        (("name=Ann", "age=Ann"), "age=Ann: Expected `int`"),
    ],
)
def test_messages_have_no_personal_value(fields: tuple[str, ...], message: str) -> None:
    """Only personal fields are redacted. The last field is not personal."""
    with pytest.raises(UsageError) as raised:
        command_data(PEOPLE, "people.Greet", fields)
    assert str(raised.value).startswith(message)
