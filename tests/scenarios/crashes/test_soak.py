"""A short soak in every run of the tests; `make nightly` runs a longer one."""

import random
from pathlib import Path

import pytest

from tests.support.soak import soak

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.nightly]


@pytest.mark.covers("one-outcome")
def test_random_kills_repeat_no_command(tmp_path: Path) -> None:
    """After kills at random times, all topics, shards and readers agree with the reference model."""
    soak(tmp_path, minutes=0.2, seed=random.randrange(10**6), report=print)
