"""The model is checked by breaking it: without any of its rules, a promise is broken."""

import pytest

from tests.model.broken_rules import BREAKS
from tests.model.explore import explore
from tests.model.rules import Rules

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("broken", BREAKS)
def test_a_broken_rule_has_a_counterexample(broken: str) -> None:
    rules, scenario, wrong = BREAKS[broken]
    explore(scenario, rules).check_broken(wrong)


@pytest.mark.parametrize("broken", BREAKS)
def test_a_kept_rule_has_no_counterexample(broken: str) -> None:
    assert explore(BREAKS[broken].scenario, Rules()).counterexample is None
