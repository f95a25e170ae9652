"""A history with outcomes of all statuses."""

import pytest

from tests.proof.history import History, Wish, wish


@pytest.fixture
def history() -> History:
    """Nine commands at offsets 0 1 2 4 5 6 8 9 10, of which four are accepted: at 0, 1, 6 and 10."""
    return History(
        [
            wish(2, expectedversion="none"),  # events 0 and 1
            wish(1, "b"),  # event 2
            wish(0),  # unchanged
            wish(-1),  # rejected
            wish(2, expectedversion="7"),  # a conflict
            wish(3, "a", "x", expectedversion=2),  # events 4, 5 and 6
            wish(3, "a", "x", expectedversion=2),  # a duplicate
            Wish(0, value=b"\xff"),  # failed
            wish(1, "b", expectedversion="exists"),  # event 8
        ]
    )
