"""Of many cases a few are in every test run. `make nightly` runs all cases."""

from collections.abc import Iterable
from typing import Any

import pytest


def sample_cases(cases: Iterable[Any], *always: Any) -> list[Any]:
    """Return all cases. The cases outside `always` are marked `nightly`."""
    cases = list(cases)
    assert all(case in cases for case in always)
    return [case if case in always else pytest.param(case, marks=pytest.mark.nightly) for case in cases]
