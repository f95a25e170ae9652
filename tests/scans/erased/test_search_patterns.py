"""Searching for patterns in bytes finds each occurrence, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.scans.erased.search_patterns import SearchPatterns

texts = st.lists(st.text('abé"', min_size=5, max_size=9), min_size=1, max_size=6)
data = st.binary(max_size=40).map(lambda some: bytes(b"ab\xc3\xa9"[byte % 4] for byte in some))


@given(texts, data, data, st.integers(1, 9))
def test_text_is_found_across_chunks(texts_: list[str], before: bytes, after: bytes, size: int) -> None:
    for data_ in (before + after, before + texts_[-1].encode() + after):
        offsets: set[int | None] = {
            offset
            for offset in range(len(data_))
            for text in texts_
            if data_[offset:].startswith(text.encode())
        }
        chunks = [data_[offset : offset + size] for offset in range(0, len(data_), size)]
        only_violation = SearchPatterns(texts_).find_in(chunks)
        assert only_violation in offsets if offsets else only_violation is None


@given(st.text(min_size=5, max_size=70), data, data)
def test_text_is_found_as_json_spells_it(text: str, before: bytes, after: bytes) -> None:
    for form in (text.encode(errors="replace"), json.dumps(text).encode()):
        assert SearchPatterns([text]).find_in([before + form + after]) is not None


def test_short_texts_are_counted() -> None:
    patterns = SearchPatterns(["Ann", "Ann Smith"])
    assert (patterns.count, patterns.too_short) == (1, 1)
    assert patterns.find_in([b"Ann is here"]) is None


@pytest.mark.parametrize("data_", [[], [b""], [b"x" * 100]])
def test_nothing_is_found_in_nothing(data_: list[bytes]) -> None:
    assert SearchPatterns([]).find_in(data_) is None
    assert SearchPatterns(["Ann Smith"]).find_in(data_) is None
