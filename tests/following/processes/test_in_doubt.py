"""A hanging transaction of a process manager is committed exactly if a part of it is visible."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cqrs_cli.following.processes.in_doubt import ReactionTraces, must_commit

PARTS = ("first command", "second command", "position", "offset")


@pytest.mark.covers("reacted-once")
@given(
    before=st.integers(0, 5),
    events=st.integers(0, 3),
    with_commands=st.booleans(),
    unmarked=st.sets(st.sampled_from(PARTS), min_size=1),
    committed=st.booleans(),
)
def test_visible_part_commits_the_rest(
    before: int, events: int, with_commands: bool, unmarked: set[str], committed: bool
) -> None:
    """A hanging transaction on the events from `before` on is committed if one of its parts is visible.

    The parts in `unmarked` got no end marker.
    """
    sends = with_commands and events > 0
    parts = {"position", "offset", *(PARTS[:2] if sends else ())}
    assume(parts & unmarked)
    visible = parts - unmarked if committed else set()
    commands = {"first command", "second command"}
    shown, repeats = "position" in visible, "offset" in visible
    traces = ReactionTraces(
        position=before + events if shown else before,
        visible_in_group=shown is repeats,
        hidden_position="position" in unmarked,
        hidden_in_group=repeats,
        sent=bool(visible & commands),
        hidden_event=before if parts & unmarked & commands else None,
    )
    assert must_commit(traces) is bool(visible)


@pytest.mark.covers("reacted-once")
def test_offset_of_a_lost_position_goes() -> None:
    """A hanging group offset is aborted if the position of the same transaction was lost."""
    assert not must_commit(ReactionTraces(position=-1, visible_in_group=False, hidden_position=False))
