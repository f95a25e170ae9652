"""Equal values have equal bytes, which digests, event ids and replays compare."""

from dataclasses import dataclass

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.json import encode_json


@given(st.dictionaries(st.text(), st.integers(0, 9)))
def test_mappings_have_one_order(members: dict[str, int]) -> None:
    reversed_members = dict(reversed(members.items()))
    assert encode_json(members) == encode_json(reversed_members)


def test_sets_have_one_order() -> None:
    assert encode_json({"one", "two", "three", "four"}) == b'["four","one","three","two"]'


@dataclass(frozen=True, slots=True)
class Address:
    city: str
    zip: str = ""


def test_slots_write_omitted_defaults() -> None:
    """docs/aggregates.md documents this for `slots=True`. Without `slots=True` the default is omitted."""
    decoded = msgspec.json.decode(b'{"city":"Leipzig"}', type=Address)
    assert encode_json(decoded) == encode_json(Address("Leipzig")) == b'{"city":"Leipzig","zip":""}'
