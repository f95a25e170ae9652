"""An in-doubt transaction of a process manager is committed exactly if a part of it is visible."""

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
    """An in-doubt transaction for the events from offset `before` on is committed if one of its parts is visible.

    The parts in `unmarked` got no end marker.
    """
    sends = with_commands and events > 0
    parts = {"position", "offset", *(PARTS[:2] if sends else ())}
    assume(parts & unmarked)
    visible = parts - unmarked if committed else set()
    commands = {"first command", "second command"}
    position_visible, offset_visible = "position" in visible, "offset" in visible
    traces = ReactionTraces(
        visible_offset=before + events if position_visible else before,
        is_visible_in_group=position_visible is offset_visible,
        has_hidden_position="position" in unmarked,
        is_hidden_in_group=offset_visible,
        has_visible_command=bool(visible & commands),
        hidden_event_offset=before if parts & unmarked & commands else None,
    )
    assert must_commit(traces) is bool(visible)


@pytest.mark.covers("reacted-once")
def test_offset_without_its_position_is_aborted() -> None:
    """An in-doubt group offset is aborted if the position of the same transaction was lost."""
    assert not must_commit(
        ReactionTraces(visible_offset=-1, is_visible_in_group=False, has_hidden_position=False)
    )
