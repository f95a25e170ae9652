"""Expected versions: the valid texts, and their result at each version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.expected_version import MAX_VERSION, parse_expected
from cqrs_cli.core.messages.reasons import Reason

versions = st.integers(0, MAX_VERSION)


def mismatch_reason(text: str, version: int) -> str | None:
    mismatch = parse_expected(text).mismatch(version)
    return mismatch[0].name if mismatch else None


@given(versions)
def test_any_is_always_satisfied(version: int) -> None:
    assert mismatch_reason("any", version) is None


@given(versions)
def test_none_and_exists_are_opposites(version: int) -> None:
    assert mismatch_reason("none", version) == ("ALREADY_EXISTS" if version else None)
    assert mismatch_reason("exists", version) == (None if version else "NOT_FOUND")


@given(versions, versions)
def test_number_means_exactly_this_version(expected: int, version: int) -> None:
    assert mismatch_reason(str(expected), version) == (None if version == expected else "VERSION_CONFLICT")
    assert mismatch_reason(str(expected), expected) is None


@given(versions, versions)
def test_at_least_accepts_later_versions(expected: int, version: int) -> None:
    assert mismatch_reason(f">={expected}", version) == (None if version >= expected else "VERSION_CONFLICT")


def test_zero_fails_as_a_conflict() -> None:
    assert mismatch_reason("0", 0) is None
    assert mismatch_reason("0", 3) == "VERSION_CONFLICT"


def test_message_has_both_versions() -> None:
    assert parse_expected("7").mismatch(9) == (Reason.VERSION_CONFLICT, "expected version 7, is 9")
    assert parse_expected(">=7").mismatch(6) == (Reason.VERSION_CONFLICT, "expected version >=7, is 6")
    assert parse_expected("exists").mismatch(0) == (Reason.NOT_FOUND, "expected exists, is 0")
    assert parse_expected("none").mismatch(2) == (Reason.ALREADY_EXISTS, "expected none, is 2")


INVALID_TEXTS = [
    "",
    " ",
    "07",
    "00",
    "+7",
    "-1",
    "-0",
    "7.0",
    "7e0",
    "1_0",
    " 7",
    "7 ",
    "7\n",
    "٧",
    "７",
    "ANY",
    "None",
    "true",
]
INVALID_TEXTS += [
    "null",
    ">= 7",
    ">=07",
    ">=",
    ">=-1",
    ">7",
    "<=7",
    "==7",
    "0x7",
    "[1]",
    "any,none",
    "exists7",
]
INVALID_TEXTS += [str(MAX_VERSION + 1), f">={MAX_VERSION + 1}", str(2**63), "9" * 5000]


@pytest.mark.parametrize("text", INVALID_TEXTS)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an expected version"):
        parse_expected(text)


def test_largest_version_is_valid() -> None:
    assert mismatch_reason(str(MAX_VERSION), MAX_VERSION) is None
    assert mismatch_reason(f">={MAX_VERSION}", MAX_VERSION) is None


@given(st.text(max_size=30))
def test_no_text_means_any_by_mistake(text: str) -> None:
    try:
        expected = parse_expected(text)
    except ValueError:
        return
    texts = {"any": "any", "none": "none", "exists": "exists", "exactly": f"{expected.number}"}
    assert text == texts.get(expected.kind, f">={expected.number}")


@given(st.from_regex(r"(>=)?[0-9+\-._ ]{1,18}", fullmatch=True))
def test_number_has_one_form(text: str) -> None:
    try:
        expected = parse_expected(text)
    except ValueError:
        return
    assert text.removeprefix(">=") == str(expected.number)
