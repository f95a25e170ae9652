"""A hanging transaction is committed exactly if a part of it is visible."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cqrs_cli.deciding.settle import CommandTraces, was_committed

PARTS = ("events", "outcomes", "position")


@pytest.mark.pins("one-outcome")
@given(
    before=st.integers(0, 5),
    with_events=st.lists(st.booleans(), max_size=4),
    unmarked=st.sets(st.sampled_from(PARTS), min_size=1),
    committed=st.booleans(),
    first_event=st.booleans(),
)
def test_visible_part_commits_the_rest(
    before: int, with_events: list[bool], unmarked: set[str], committed: bool, first_event: bool
) -> None:
    """A transaction on the commands from `before` on; the parts in `unmarked` got no marker of its end."""
    end = before + len(with_events)
    caused = [before + number for number, caused in enumerate(with_events) if caused]
    parts = {"position", *(["outcomes"] if with_events else []), *(["events"] if caused else [])}
    assume(parts & unmarked)
    visible = parts - unmarked if committed else set()
    last_event = before - 1 if before and first_event else None
    traces = CommandTraces(
        committed=end if "position" in visible else before or None,
        last_outcome=end - 1 if "outcomes" in visible else before - 1 if before else None,
        last_event=caused[-1] if "events" in visible else last_event,
        hidden_outcome=before if "outcomes" in parts & unmarked else None,
        hidden_event=caused[0] if "events" in parts & unmarked else None,
    )
    assert was_committed(traces) is bool(visible)
