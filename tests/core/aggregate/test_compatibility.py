"""Changes that break stored events or clients are distinguished from changes that only need a commit."""

import msgspec
import pytest

from cqrs_cli.core.aggregate.compatibility import compare_contracts
from tests.core.aggregate.contracts import BEFORE, made


def found(**parts: str) -> list[tuple[str, str]]:
    return [(change.level, change.description) for change in compare_contracts(made(), made(**parts))]


def test_same_code_changes_nothing() -> None:
    assert found() == []


GROWN = BEFORE["done"]


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ({"events": "Done"}, "event Old is gone"),
        ({"commands": "Put"}, "command Go is gone"),
        ({"done": GROWN.replace("n: int;", "")}, "event Done, field n: is gone"),
        ({"done": GROWN.replace("n: int;", "m: int;")}, "event Done, field n: is gone (renamed to m?)"),
        ({"done": "new: str; " + GROWN}, "event Done, field new: is new and has no default"),
        ({"done": GROWN.replace("n: int", "n: str", 1)}, "event Done, field n: was integer, is string"),
        (
            {"done": GROWN.replace("n: int", "n: datetime")},
            "event Done, field n: was integer, is string (date-time)",
        ),
        ({"colours": "RED = 'red'"}, "event Done, field colour: can no longer be 'blue'"),
        ({"colours": "RED = 'red'"}, "command Put, field colour: can no longer be 'blue'"),
        ({"customer": "zip: str"}, "event Done, field who.zip: is new and has no default"),
        ({"done": GROWN.replace(" | None = None", "= Customer('x')")}, "field who: can no longer be null"),
        ({"put": "colour: Colour; n: int = 0"}, "command Put, field colour: has lost its default"),
        ({"put": "n: Annotated[int, msgspec.Meta(ge=0)]"}, "command Put, field colour: is gone"),
        (
            {"put": "n: Annotated[int, msgspec.Meta(ge=0)]"},
            "command Put, field n: had no limits, has {'minimum': 0}",
        ),
        ({"tree": "size: int"}, "event Done, field tree.size: is new and has no default"),
    ],
)
def test_breaking_change_is_red(parts: dict[str, str], what: str) -> None:
    assert any(level == "red" and what in said for level, said in found(**parts))


def test_message_without_fields_is_no_field() -> None:
    """A change of a whole message names no field."""
    before, today = made(), made()
    today["$defs"]["Done"] |= {"minProperties": 1}
    assert "event Done: had no limits, has {'minProperties': 1}" in [
        one.description for one in compare_contracts(before, today)
    ]


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ({"done": GROWN + "; new: str = ''"}, "event Done, field new: is new"),
        ({"done": GROWN.replace("n: int", "n: float")}, "event Done, field n: was integer, is number"),
        ({"done": GROWN.replace("n: int", "n: int | None")}, "event Done, field n: may now be null"),
        ({"colours": "RED = 'red'; BLUE = 'blue'; G = 'green'"}, "field colour: may now be 'green'"),
        ({"put": "n: int = 1; colour: Colour = Colour.RED"}, "command Put, field n: has a default now"),
        (
            {"put": "n: int; colour: Colour = Colour.BLUE"},
            "command Put, field colour: has the default 'blue', it was 'red'",
        ),
        ({"box": "n: str = ''"}, "the state changed"),
        (
            {"events": "Done", "decider": "upcasters={'Old': lambda old: Done(0)}"},
            "Old is read by an upcaster",
        ),
        ({"decider": "revision=2"}, "the revision is 2, it was 1"),
        ({"more": BEFORE["more"] + "\nclass Up(cqrs.Event): pass", "events": "Done | Old | Up"}, "Up is new"),
    ],
)
def test_compatible_change_is_amber(parts: dict[str, str], what: str) -> None:
    said = found(**parts)
    assert {level for level, _ in said} == {"amber"}
    assert any(what in one for _, one in said)


def test_lost_upcaster_is_red() -> None:
    before = made(events="Done", decider="upcasters={'Old': lambda old: Done(0)}")
    (change,) = compare_contracts(before, made(events="Done"))
    assert (change.level, change.description) == ("red", "upcaster of event Old is gone")
    assert "upcasters={'Old': …}" in change.remedy
    assert found(events="Done") == [("red", "event Old is gone")]


def test_upcaster_allows_another_shape() -> None:
    """An upcaster with the name of a current event gets old and new data."""
    parts = {"done": "new: str", "decider": "upcasters={'Done': lambda data: Done(str(data))}"}
    assert {level for level, _ in found(**parts)} == {"amber"}


def test_every_break_says_what_to_do() -> None:
    broken = compare_contracts(made(), made(events="Done", commands="Put", done="x: int", put="x: int"))
    assert len(broken) >= 6
    assert all(change.remedy for change in broken if change.level == "red")


def test_breaks_come_first() -> None:
    """Changes that break events need other actions than changes that break senders."""
    today = made(
        events="Done | Up", commands="Put | Up2", done="x: int", put="x: int", box="n: str = ''", more=NEW
    )
    levels = [change.level for change in compare_contracts(made(), today)]
    assert levels == sorted(levels, reverse=True) and set(levels) == {"red", "amber"}
    said = {change.description: change.remedy for change in compare_contracts(made(), today)}
    assert "UNKNOWN_TYPE" in said["command Go is gone"]
    assert "INVALID_PAYLOAD" in said["command Put, field n: is gone"]
    assert "events on the log" in said["event Done, field n: is gone"]
    assert said["command Up2 is new"] == said["event Up is new"] == ""
    assert "shards are rebuilt" in said["the state changed"]


NEW = "class Up(cqrs.Event): pass\nclass Up2(cqrs.Command): pass"


def test_upcaster_says_so_in_its_changes() -> None:
    parts = {"done": "new: str", "decider": "upcasters={'Done': lambda data: Done(str(data))}"}
    found = {change.description: change.remedy for change in compare_contracts(made(), made(**parts))}
    assert "its upcaster" in found["event Done, field new: is new and has no default"]


def test_contract_names_the_aggregate() -> None:
    assert {"aggregate": "made", "revision": 1}.items() <= made().items() and "title" not in made()


def test_contract_survives_its_file() -> None:
    written = made()
    assert msgspec.json.decode(msgspec.json.encode(written, order="sorted")) == written


def test_text_that_becomes_a_time_is_red() -> None:
    text, time = made(done="at: str"), made(done="at: datetime")
    assert [change.description for change in compare_contracts(text, time) if change.level == "red"] == [
        "event Done, field at: was string, is string (date-time)"
    ]
