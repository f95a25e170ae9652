"""A live look at processes."""

import pytest

from cqrs_cli.cli.live.reacting import ProcessLooker
from cqrs_cli.following.processes.load import load_process
from cqrs_cli.following.processes.retire import retire_processes
from cqrs_cli.kafka.connection.connection import Connection
from tests.following.processes.stage import Stage, react_here
from tests.support import ROOT
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def test_looks_follow_the_position(connection: Connection, prefix: str) -> None:
    stage = Stage(connection, prefix)
    use = load_process("checkout", ROOT, "aggregates").use(prefix)
    looker = ProcessLooker(connection, [use], stage.settings.state_dir)
    stage.place(0, 3)
    new = looker.look()
    assert set(new) == {("checkout < order", 0), ("checkout < payment", 0)}
    assert {(one.run, one.lag, one.reacts) for one in new.values()} == {("", 0, True)}
    plan = stage.plan()
    react_here(plan)
    stage.place(3, 2)
    seen = looker.look()["checkout < order", 0]
    assert (seen.run, seen.stopped) == (plan.run, False) and seen.lag > 0
    retire_processes(plan)
    eventually(lambda: looker.look()["checkout < order", 0].stopped)
    looker.close()
    assert looker.look().keys() == new.keys()
