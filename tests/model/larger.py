"""How much of larger worlds is explored: a million states, by `make nightly`."""

import pytest

LARGER = [pytest.param(1_000_000, marks=pytest.mark.nightly)]
