"""Every single fault in a random history is found."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.record import Record
from tests.proof.faults import FAULTS, swap
from tests.proof.history import History, random_commands, seeds
from tests.support.foreign_records import changed_record


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize("mutation", FAULTS)
@pytest.mark.parametrize("kind", ["outcomes", "events"])
@given(on_disk=st.booleans(), seed=seeds, fraction=st.floats(0, 1, exclude_max=True))
def test_every_single_fault_is_found(
    kind: str,
    mutation: Callable[[History, list[Record], int], None],
    on_disk: bool,
    seed: int,
    fraction: float,
) -> None:
    history = History(random_commands(seed))
    log: list[Record] = getattr(history, kind)
    index = int(fraction * len(log))
    if len(log) <= (mutation is swap) or (mutation is swap and index == 0):
        return
    mutation(history, log, index)
    assert history.violations(on_disk=on_disk) != []


@given(seed=seeds, fraction=st.floats(0, 1, exclude_max=True))
def test_every_missing_dead_letter_is_found(seed: int, fraction: float) -> None:
    history = History(random_commands(seed))
    if history.letters:
        del history.letters[int(fraction * len(history.letters))]
        assert history.violations() != []


@given(seed=seeds, fraction=st.floats(0, 1, exclude_max=True))
def test_every_name_of_unread_command_is_found(seed: int, fraction: float) -> None:
    history = History(random_commands(seed), refused=frozenset([0, 5]))
    unread = [
        index
        for index, outcome in enumerate(history.outcomes)
        if b"fingerprint" not in (outcome.value or b"")
    ]
    assert history.violations() == []
    index = unread[int(fraction * len(unread))]
    history.outcomes[index] = changed_record(history.outcomes[index], causationid="c")
    assert history.violations() != []
