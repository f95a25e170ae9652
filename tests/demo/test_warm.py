"""Workers are ready before there is work."""

import sys
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING

import pytest

from cqrs_cli.demo.warm import warm_session

if TYPE_CHECKING:
    from pyspark import SparkContext


@pytest.mark.spark
def test_warm_workers_know_a_run(spark: "SparkContext") -> None:
    with ExitStack() as stack:
        context = warm_session(stack, nullcontext(spark))
    known = context.parallelize(range(2), 2).map(lambda _: "cqrs_cli.runs.task" in sys.modules)
    assert known.collect() == [True, True]
