"""How much of larger worlds is explored: a part of them with the slow tests, and up to a million by `make nightly`."""

import pytest

LARGER = [pytest.param(50_000, marks=pytest.mark.slow), pytest.param(1_000_000, marks=pytest.mark.nightly)]
