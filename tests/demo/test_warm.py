"""Spark's Python workers are started before the run of the demo."""

import sys
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING

import pytest

from cqrs_cli.demo.warm import warm_session

if TYPE_CHECKING:
    from pyspark import SparkContext


@pytest.mark.spark
def test_warm_workers_have_imported_the_run(spark: "SparkContext") -> None:
    with ExitStack() as stack:
        context = warm_session(stack, nullcontext(spark))
    has_imported = context.parallelize(range(2), 2).map(lambda _: "cqrs_cli.runs.task" in sys.modules)
    assert has_imported.collect() == [True, True]
