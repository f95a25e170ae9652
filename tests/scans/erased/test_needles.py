"""Searching for patterns in bytes finds each occurrence, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.scans.erased.needles import Needles

texts = st.lists(st.text('abé"', min_size=5, max_size=9), min_size=1, max_size=6)
data = st.binary(max_size=40).map(lambda some: bytes(b"ab\xc3\xa9"[byte % 4] for byte in some))


@given(texts, data, data, st.integers(1, 9))
def test_text_is_found_across_chunks(wanted: list[str], before: bytes, after: bytes, size: int) -> None:
    for hay in (before + after, before + wanted[-1].encode() + after):
        places: set[int | None] = {
            at for at in range(len(hay)) for text in wanted if hay[at:].startswith(text.encode())
        }
        chunks = [hay[at : at + size] for at in range(0, len(hay), size)]
        found = Needles(wanted).find(chunks)
        assert found in places if places else found is None


@given(st.text(min_size=5, max_size=70), data, data)
def test_text_is_found_as_json_spells_it(text: str, before: bytes, after: bytes) -> None:
    for form in (text.encode(errors="replace"), json.dumps(text).encode()):
        assert Needles([text]).find([before + form + after]) is not None


def test_short_texts_are_counted() -> None:
    needles = Needles(["Ann", "Ann Smith"])
    assert (needles.count, needles.too_short) == (1, 1)
    assert needles.find([b"Ann is here"]) is None


@pytest.mark.parametrize("hay", [[], [b""], [b"x" * 100]])
def test_nothing_is_found_in_nothing(hay: list[bytes]) -> None:
    assert Needles([]).find(hay) is None
    assert Needles(["Ann Smith"]).find(hay) is None
