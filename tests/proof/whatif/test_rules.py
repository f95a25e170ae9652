"""The rules of `whatif --fail-on`."""

from collections import Counter
from decimal import Decimal
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.reasons import STATUSES, Reason
from cqrs_cli.proof.whatif.difference import DifferenceKind, Label
from cqrs_cli.proof.whatif.rules import RuleKind, parse_rule

CODES = st.sampled_from(["OVERDRAWN", "sold out", "a>0", "ÄÖ%"])
RESULTS = st.one_of(
    st.sampled_from([*STATUSES]),
    st.builds("{} {}".format, st.sampled_from([*STATUSES]), st.sampled_from([*Reason.__members__])),
    st.builds("rejected BUSINESS_RULE {}".format, CODES),
)
LABELS = st.tuples(st.sampled_from(get_args(DifferenceKind)), RESULTS, RESULTS)
COUNTS = st.dictionaries(LABELS, st.integers(1, 1000), max_size=5)
LIMITS = st.one_of(
    st.integers(0, 2000).map(str), st.decimals(0, 200, places=2).map(lambda percentage: f"{percentage}%")
)


@given(RESULTS | st.just("any"), RESULTS | st.just("any"), LIMITS)
def test_written_results_are_parsed(was: str, would: str, limit: str) -> None:
    rule = parse_rule(f"{was} -> {would} > {limit}")
    assert (rule.kind, rule.was, rule.would) == ("decision", was, would)
    assert (rule.limit, rule.is_percentage) == (Decimal(limit.rstrip("%")), limit.endswith("%"))


@given(st.text() | st.from_regex(r"[a-z]{1,9}(->[a-zA-Z_ ]*)?>[0-9.]*%?", fullmatch=True))
def test_any_text_is_parsed_or_named(text: str) -> None:
    try:
        rule = parse_rule(text)
    except ValueError as error:
        assert "is not a" in str(error)
    else:
        assert rule.text == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "state", "state>", "state>-1", "state>1.5", "state>1%%", "state>٣", "states>1", "accepted>0"),
        *("->rejected>0", "acepted->rejected>0", "any any->rejected>0", "accepted->rejected OVERDRAWN>0"),
    ],
)
def test_misspelled_rules_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_rule(text)


@given(COUNTS, st.sampled_from(get_args(RuleKind)))
def test_a_kind_counts_its_differences(counts: dict[Label, int], kind: RuleKind) -> None:
    kinds = {"outcome", "events", "version"} if kind == "decision" else {kind}
    count = sum(number for label, number in counts.items() if label[0] in kinds)
    assert parse_rule(f"{kind}>0").result(counts, 5000, 5000).differences == count
    assert not parse_rule(f"{kind}>{count}").result(counts, 5000, 5000).is_exceeded
    assert count == 0 or parse_rule(f"{kind}>{count - 1}").result(counts, 5000, 5000).is_exceeded


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.decimals(0, 100, places=3))
def test_percentages_are_exact(count: int, others: int, percentage: Decimal) -> None:
    counts = Counter[Label]({("state", "exists", "absent"): count})
    result = parse_rule(f"state>{percentage}%").result(counts, 0, count + others)
    assert result.is_exceeded == (count * 100_000 > int(percentage * 1000) * (count + others))


def test_results_match_whole_words() -> None:
    rule = parse_rule("rejected BUSINESS_RULE SOLD->any>0")
    assert rule.matches(("outcome", "rejected BUSINESS_RULE SOLD", "accepted"))
    assert rule.matches(("outcome", "rejected BUSINESS_RULE SOLD OUT", "accepted"))
    assert not rule.matches(("outcome", "rejected BUSINESS_RULE SOLD_OUT", "accepted"))
    assert not parse_rule("any->any>0").matches(("state", "exists", "absent"))
