"""The bound for larger worlds: a million states, explored by `make nightly`."""

import pytest

LARGER = [pytest.param(1_000_000, marks=pytest.mark.nightly)]
