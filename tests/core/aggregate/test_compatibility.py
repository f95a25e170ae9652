"""Changes that break stored events or clients are distinguished from changes that only need a commit."""

import msgspec
import pytest

from cqrs_cli.core.aggregate.compatibility import compare_contracts
from tests.core.aggregate.contracts import DEFAULT_PARTS, contract_with


def changes_to(**parts: str) -> list[tuple[str, str]]:
    return [
        (change.level, change.description)
        for change in compare_contracts(contract_with(), contract_with(**parts))
    ]


def test_same_code_changes_nothing() -> None:
    assert changes_to() == []


DONE_FIELDS = DEFAULT_PARTS["done"]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"events": "Done"}, "event Old is gone"),
        ({"commands": "Put"}, "command Go is gone"),
        ({"done": DONE_FIELDS.replace("n: int;", "")}, "event Done, field n: is gone"),
        ({"done": DONE_FIELDS.replace("n: int;", "m: int;")}, "event Done, field n: is gone (renamed to m?)"),
        ({"done": "new: str; " + DONE_FIELDS}, "event Done, field new: is new and has no default"),
        ({"done": DONE_FIELDS.replace("n: int", "n: str", 1)}, "event Done, field n: was integer, is string"),
        (
            {"done": DONE_FIELDS.replace("n: int", "n: datetime")},
            "event Done, field n: was integer, is string (date-time)",
        ),
        ({"colours": "RED = 'red'"}, "event Done, field colour: can no longer be 'blue'"),
        ({"colours": "RED = 'red'"}, "command Put, field colour: can no longer be 'blue'"),
        ({"customer": "zip: str"}, "event Done, field who.zip: is new and has no default"),
        (
            {"done": DONE_FIELDS.replace(" | None = None", "= Customer('x')")},
            "field who: can no longer be null",
        ),
        ({"put": "colour: Colour; n: int = 0"}, "command Put, field colour: has lost its default"),
        ({"put": "n: Annotated[int, msgspec.Meta(ge=0)]"}, "command Put, field colour: is gone"),
        (
            {"put": "n: Annotated[int, msgspec.Meta(ge=0)]"},
            "command Put, field n: had no limits, has {'minimum': 0}",
        ),
        ({"tree": "size: int"}, "event Done, field tree.size: is new and has no default"),
    ],
)
def test_breaking_change_is_red(parts: dict[str, str], expected: str) -> None:
    assert any(level == "red" and expected in description for level, description in changes_to(**parts))


def test_change_of_a_message_names_no_field() -> None:
    old_contract, new_contract = contract_with(), contract_with()
    new_contract["$defs"]["Done"] |= {"minProperties": 1}
    assert "event Done: had no limits, has {'minProperties': 1}" in [
        change.description for change in compare_contracts(old_contract, new_contract)
    ]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"done": DONE_FIELDS + "; new: str = ''"}, "event Done, field new: is new"),
        ({"done": DONE_FIELDS.replace("n: int", "n: float")}, "event Done, field n: was integer, is number"),
        ({"done": DONE_FIELDS.replace("n: int", "n: int | None")}, "event Done, field n: may now be null"),
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
        (
            {"more": DEFAULT_PARTS["more"] + "\nclass Up(cqrs.Event): pass", "events": "Done | Old | Up"},
            "Up is new",
        ),
    ],
)
def test_compatible_change_is_amber(parts: dict[str, str], expected: str) -> None:
    changes = changes_to(**parts)
    assert {level for level, _ in changes} == {"amber"}
    assert any(expected in description for _, description in changes)


def test_lost_upcaster_is_red() -> None:
    old_contract = contract_with(events="Done", decider="upcasters={'Old': lambda old: Done(0)}")
    (change,) = compare_contracts(old_contract, contract_with(events="Done"))
    assert (change.level, change.description) == ("red", "upcaster of event Old is gone")
    assert "upcasters={'Old': …}" in change.remedy
    assert changes_to(events="Done") == [("red", "event Old is gone")]


def test_upcaster_allows_another_shape() -> None:
    """An upcaster with the name of a current event gets old and new data."""
    parts = {"done": "new: str", "decider": "upcasters={'Done': lambda data: Done(str(data))}"}
    assert {level for level, _ in changes_to(**parts)} == {"amber"}


def test_every_breaking_change_has_a_remedy() -> None:
    changes = compare_contracts(
        contract_with(), contract_with(events="Done", commands="Put", done="x: int", put="x: int")
    )
    assert len(changes) >= 6
    assert all(change.remedy for change in changes if change.level == "red")


def test_breaking_changes_come_first() -> None:
    """Changes that break events have other remedies than changes that break senders."""
    new_contract = contract_with(
        events="Done | Up",
        commands="Put | Up2",
        done="x: int",
        put="x: int",
        box="n: str = ''",
        more=NEW_CLASSES,
    )
    levels = [change.level for change in compare_contracts(contract_with(), new_contract)]
    assert levels == sorted(levels, reverse=True) and set(levels) == {"red", "amber"}
    remedies = {
        change.description: change.remedy for change in compare_contracts(contract_with(), new_contract)
    }
    assert "UNKNOWN_TYPE" in remedies["command Go is gone"]
    assert "INVALID_PAYLOAD" in remedies["command Put, field n: is gone"]
    assert "events on the log" in remedies["event Done, field n: is gone"]
    assert remedies["command Up2 is new"] == remedies["event Up is new"] == ""
    assert "shards are rebuilt" in remedies["the state changed"]


NEW_CLASSES = "class Up(cqrs.Event): pass\nclass Up2(cqrs.Command): pass"


def test_remedy_names_the_upcaster() -> None:
    parts = {"done": "new: str", "decider": "upcasters={'Done': lambda data: Done(str(data))}"}
    remedies = {
        change.description: change.remedy
        for change in compare_contracts(contract_with(), contract_with(**parts))
    }
    assert "the upcaster must accept" in remedies["event Done, field new: is new and has no default"]


def test_contract_names_the_aggregate() -> None:
    assert {
        "aggregate": "made",
        "revision": 1,
    }.items() <= contract_with().items() and "title" not in contract_with()


def test_contract_is_read_back_unchanged() -> None:
    contract = contract_with()
    assert msgspec.json.decode(msgspec.json.encode(contract, order="sorted")) == contract


def test_text_that_becomes_a_time_is_red() -> None:
    text, time = contract_with(done="at: str"), contract_with(done="at: datetime")
    assert [change.description for change in compare_contracts(text, time) if change.level == "red"] == [
        "event Done, field at: was string, is string (date-time)"
    ]
