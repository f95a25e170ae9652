"""A hanging transaction is committed exactly if a part of it is visible."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cqrs_cli.core.deferral.document import read_forwardedfrom
from cqrs_cli.deciding.in_doubt import CommandTraces, RepartitioningTraces, was_committed

PARTS = ("events", "outcomes", "position")


@pytest.mark.covers("one-outcome")
@given(
    start=st.integers(0, 5),
    with_events=st.lists(st.booleans(), max_size=4),
    unmarked_parts=st.sets(st.sampled_from(PARTS), min_size=1),
    committed=st.booleans(),
    first_event=st.booleans(),
    lag=st.integers(0, 5),
    has_position=st.booleans(),
)
def test_visible_part_commits_the_rest(
    start: int,
    with_events: list[bool],
    unmarked_parts: set[str],
    committed: bool,
    first_event: bool,
    lag: int,
    has_position: bool,
) -> None:
    """A hanging transaction on the commands from `start` on is committed if one of its parts is visible. If only its
    position is pending, the position is aborted: it may be older than the last decisions, so nothing shows whether the
    records were committed, and the next owner derives it from the outcomes.

    The parts in `unmarked_parts` have no end marker. Before the transaction, the group's offset was `lag` commands
    before `start`.
    """
    end = start + len(with_events)
    commands_with_events = [start + number for number, has_events in enumerate(with_events) if has_events]
    parts = {
        *(["position"] if has_position else []),
        *(["outcomes"] if with_events else []),
        *(["events"] if commands_with_events else []),
    }
    assume(parts & unmarked_parts)
    visible = parts - unmarked_parts if committed else set()
    last_event_command = start - 1 if start and first_event else None
    traces = CommandTraces(
        committed=end if "position" in visible else max(0, start - lag) or None,
        last_outcome_command=end - 1 if "outcomes" in visible else start - 1 if start else None,
        last_event_command=commands_with_events[-1] if "events" in visible else last_event_command,
        hidden_outcome=start if "outcomes" in parts & unmarked_parts else None,
        hidden_event=commands_with_events[0] if "events" in parts & unmarked_parts else None,
    )
    assert was_committed(traces) is bool(visible and parts & unmarked_parts != {"position"})


@pytest.mark.parametrize(("last_outcome_command", "committed"), [(4, False), (5, True), (7, True)])
def test_visible_outcome_commits_the_forward(last_outcome_command: int, committed: bool) -> None:
    """Command 5 was forwarded. Its transaction has no marker in the child's commands."""
    traces = CommandTraces(5, last_outcome_command, None, None, None, hidden_forward=5)
    assert was_committed(traces) is committed


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize(("last_outcome_command", "committed"), [(4, False), (5, True), (7, True)])
def test_visible_outcome_commits_the_key(last_outcome_command: int, committed: bool) -> None:
    """A hanging data key is committed if an outcome of its batch, from command 5 on, is visible."""
    traces = CommandTraces(last_outcome_command + 1, last_outcome_command, None, None, None, hidden_key=5)
    assert was_committed(traces) is committed


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("log", ["hidden_deferred", "hidden_dead_letter"])
@pytest.mark.parametrize(("last_outcome_command", "committed"), [(4, False), (5, True), (7, True)])
def test_visible_outcome_commits_other_records(log: str, last_outcome_command: int, committed: bool) -> None:
    traces = CommandTraces(5, last_outcome_command, None, None, None)._replace(**{log: 5})
    assert was_committed(traces) is committed


@pytest.mark.parametrize(
    ("traces", "committed"),
    [
        (RepartitioningTraces(8, 4), True),  # the claim of a split, whose record is hidden
        (RepartitioningTraces(4, 4), False),
        (
            RepartitioningTraces(4, 8),
            False,
        ),  # the record of a split, whose claim is pending: the record counts
        (RepartitioningTraces(8, 8, has_imported_deferred=True, hides_imported=True), True),
        (
            RepartitioningTraces(8, 8, has_imported_deferred=False, hides_imported=True),
            False,
        ),  # it imports the entries again
        (
            RepartitioningTraces(8, 8, has_imported_deferred=True, hides_imported=True, has_decided=True),
            False,
        ),
    ],
)
def test_visible_repartitioning_record_commits_the_rest(
    traces: RepartitioningTraces, committed: bool
) -> None:
    assert traces.is_visible is committed


@pytest.mark.parametrize(
    ("value", "position"),
    [
        (b'{"id":"x","forwardedfrom":"3/17"}', (3, 17)),
        (b'{"forwardedfrom":"3"}', None),
        (b'{"forwardedfrom":3}', None),
        (b"{}", None),
        (b"", None),
        (None, None),
    ],
)
def test_forwarding_position_is_read(value: bytes | None, position: tuple[int, int] | None) -> None:
    assert read_forwardedfrom(value) == position
