"""Searching for patterns in bytes finds each occurrence, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.scans.erased.search_patterns import SearchPatterns

texts = st.lists(st.text('abé"', min_size=5, max_size=9), min_size=1, max_size=6)
contents = st.binary(max_size=40).map(lambda numbers: bytes(b"ab\xc3\xa9"[byte % 4] for byte in numbers))


@given(texts, contents, contents, st.integers(1, 9))
def test_text_is_found_across_chunks(sought: list[str], prefix: bytes, suffix: bytes, size: int) -> None:
    for content in (prefix + suffix, prefix + sought[-1].encode() + suffix):
        offsets: set[int | None] = {
            offset
            for offset in range(len(content))
            for text in sought
            if content[offset:].startswith(text.encode())
        }
        chunks = [content[offset : offset + size] for offset in range(0, len(content), size)]
        found_offset = SearchPatterns(sought).find_in(chunks)
        assert found_offset in offsets if offsets else found_offset is None


@given(st.text(min_size=5, max_size=70), contents, contents)
def test_text_is_found_as_json_spells_it(text: str, prefix: bytes, suffix: bytes) -> None:
    for encoded in (text.encode(errors="replace"), json.dumps(text).encode()):
        assert SearchPatterns([text]).find_in([prefix + encoded + suffix]) is not None


def test_short_texts_are_counted() -> None:
    patterns = SearchPatterns(["Ann", "Ann Smith"])
    assert (patterns.count, patterns.too_short_count) == (1, 1)
    assert patterns.find_in([b"Ann is here"]) is None


def test_texts_are_counted_once() -> None:
    patterns = SearchPatterns(["Änne Smith", "Änne", 'Ann "S" Smith', "Ann Smith", "Ann Smith"])
    assert (patterns.count, patterns.too_short_count) == (4, 0)
    patterns = SearchPatterns(["Änn"])  # 4 bytes in UTF-8, 8 bytes in JSON with escapes
    assert (patterns.count, patterns.too_short_count) == (0, 1)


@pytest.mark.parametrize("content", [[], [b""], [b"x" * 100]])
def test_empty_searches_find_nothing(content: list[bytes]) -> None:
    assert SearchPatterns([]).find_in(content) is None
    assert SearchPatterns(["Ann Smith"]).find_in(content) is None
