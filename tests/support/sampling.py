"""The choice of the cases of a large matrix that run always; `make nightly` runs the others too."""

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], *always: Any) -> list[Any]:
    """All cases, marked `faults` but for those that always run, each of which must be one of them."""
    cases = list(cases)
    assert set(always) <= set(cases)
    return [case if case in always else pytest.param(case, marks=pytest.mark.nightly) for case in cases]
