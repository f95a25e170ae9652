"""The bound for larger worlds: a million states, explored by `make nightly`."""

import pytest

LARGE_WORLD_COUNTS = [pytest.param(1_000_000, marks=pytest.mark.nightly)]
