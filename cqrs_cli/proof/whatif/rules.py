"""The rules of `cqrs whatif --fail-on`. A rule limits how many differences the changed code may cause. Pure."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, NamedTuple, get_args

from cqrs_cli.core.messages.reasons import STATUSES, Reason
from cqrs_cli.proof.whatif.difference import DifferenceKind, Label

#: `decision` matches every kind of difference except `state`.
RuleKind = Literal[DifferenceKind, "decision"]

_ANY = "any"

_RULE = re.compile(r"(?P<differences>.+?)\s*>\s*(?P<limit>[0-9]+|[0-9]+(?:\.[0-9]+)?(?P<percent>%))")

#: The accepted rules, for errors.
RULE_FORMS = (
    f"RESULT->RESULT>N or KIND>N, with a kind of {', '.join(get_args(RuleKind))}, and % after N for a percentage: "
    "'accepted->rejected>0', 'any->rejected BUSINESS_RULE>5', 'state>1%'"
)


class DifferenceRule(NamedTuple):
    """A limit on the differences of a kind, or on the decisions whose result changes from `was` to `would`.

    A result is `STATUS [REASON [CODE]]`, such as `rejected BUSINESS_RULE OVERDRAWN`; `any` matches all results.
    """

    text: str  # as the user wrote the rule
    kind: RuleKind
    was: str
    would: str
    limit: Decimal
    #: True: `limit` is a percentage of the commands, or of the aggregates if the kind is `state`.
    is_percentage: bool

    @property
    def difference_kind(self) -> DifferenceKind:
        """The kind of difference that the rule counts; `outcome` for a rule on decisions."""
        return "outcome" if self.kind == "decision" else self.kind

    def matches(self, label: Label) -> bool:
        """True if the rule counts the differences with this label."""
        kind, was, would = label
        is_of_kind = kind != "state" if self.kind == "decision" else kind == self.kind
        return is_of_kind and _begins_with(was, self.was) and _begins_with(would, self.would)

    def result(self, counts: Mapping[Label, int], commands: int, aggregates: int) -> "RuleResult":
        """Compare the number of differences with the limit. `counts`: label → number of differences. `commands`,
        `aggregates`: the numbers that were compared.
        """
        count = sum(number for label, number in counts.items() if self.matches(label))
        total = aggregates if self.kind == "state" else commands
        excess = count * 100 > self.limit * total if self.is_percentage else count > self.limit
        return RuleResult(self, count, total, bool(excess))


class RuleResult(NamedTuple):
    """The number of differences that a rule counts, of `total` commands or aggregates."""

    rule: DifferenceRule
    differences: int
    total: int
    is_exceeded: bool


def parse_rule(text: str) -> DifferenceRule:
    """Parse a rule, such as `accepted->rejected>0` or `state>1%`; raises `ValueError` for text of another form."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a rule")
    limit, is_percentage = Decimal(match["limit"].removesuffix("%")), match["percent"] is not None
    was, arrow, would = match["differences"].partition("->")
    if arrow:
        return DifferenceRule(
            text, "decision", _parse_result(was), _parse_result(would), limit, is_percentage
        )
    kind = next((kind for kind in get_args(RuleKind) if kind == was), None)
    if kind is None:
        raise ValueError(f"{was!r} is not a kind of difference")
    return DifferenceRule(text, kind, _ANY, _ANY, limit, is_percentage)


def _parse_result(text: str) -> str:
    """Return the result without extra spaces; raise `ValueError` for an unknown status or reason."""
    words = text.split(maxsplit=2)
    status, reason = (*words, "", "")[:2]
    if words != [_ANY] and not (status in STATUSES and (not reason or reason in Reason.__members__)):
        raise ValueError(f"{text.strip()!r} is not a result of commands")
    return " ".join(words).rstrip()


def _begins_with(result: str, expected: str) -> bool:
    return expected == _ANY or f"{result} ".startswith(f"{expected} ")
