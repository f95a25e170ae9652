"""The model is checked by breaking it: without any of its rules, a promise is broken."""

import pytest

from tests.model.broken_rules import BROKEN_RULES
from tests.model.explore import explore
from tests.model.rules import Rules

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("broken_rule", BROKEN_RULES)
def test_a_broken_rule_has_a_counterexample(broken_rule: str) -> None:
    rules, scenario, broken_promise = BROKEN_RULES[broken_rule]
    explore(scenario, rules).check_broken(broken_promise)


@pytest.mark.parametrize("broken_rule", BROKEN_RULES)
def test_a_kept_rule_has_no_counterexample(broken_rule: str) -> None:
    assert explore(BROKEN_RULES[broken_rule].scenario, Rules()).counterexample is None
