"""A history with outcomes of all statuses."""

import pytest

from tests.proof.history import History, PlannedCommand, plan_command


@pytest.fixture
def history() -> History:
    """Nine commands at offsets 0 1 2 4 5 6 8 9 10, of which four are accepted: at 0, 1, 6 and 10."""
    return History(
        [
            plan_command(2, expectedversion="none"),  # events 0 and 1
            plan_command(1, "b"),  # event 2
            plan_command(0),  # unchanged
            plan_command(-1),  # rejected
            plan_command(2, expectedversion="7"),  # a conflict
            plan_command(3, "a", "x", expectedversion=2),  # events 4, 5 and 6
            plan_command(3, "a", "x", expectedversion=2),  # a duplicate
            PlannedCommand(0, value=b"\xff"),  # failed
            plan_command(1, "b", expectedversion="exists"),  # event 8
        ]
    )
