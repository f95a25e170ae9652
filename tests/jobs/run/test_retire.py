"""Ending a run from outside, also when no broker is there."""

import threading
from types import SimpleNamespace
from typing import cast

import pytest

from cqrs_cli.jobs.run import retire as retiring
from cqrs_cli.owner.plan import Plan
from cqrs_cli.owner.timing import Timing


def test_retiring_outlasts_a_hanging_call(monkeypatch: pytest.MonkeyPatch) -> None:
    never, retired = threading.Event(), []

    def retire_one(_: Plan, partition: tuple[str, int]) -> None:
        if partition[1] == 0:
            never.wait(60)
        retired.append(partition[1])

    monkeypatch.setattr(retiring, "_retire_one", retire_one)
    timing = Timing(retire_deadline=0.5)
    plan = SimpleNamespace(
        timing=timing, partitions=lambda: [("counter", partition) for partition in range(20)]
    )
    retiring.retire(cast(Plan, plan))
    assert sorted(retired) == list(range(1, 20))
    never.set()
