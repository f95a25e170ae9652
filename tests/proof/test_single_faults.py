"""Every single fault in a random history is found."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.record import Record
from tests.proof.faults import FAULTS, swap
from tests.proof.history import History, drawn, seeds
from tests.support.foreign_records import edited


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize("mutation", FAULTS)
@pytest.mark.parametrize("kind", ["outcomes", "events"])
@given(on_disk=st.booleans(), seed=seeds, place=st.floats(0, 1, exclude_max=True))
def test_every_single_fault_is_found(
    kind: str,
    mutation: Callable[[History, list[Record], int], None],
    on_disk: bool,
    seed: int,
    place: float,
) -> None:
    history = History(drawn(seed))
    log: list[Record] = getattr(history, kind)
    at = int(place * len(log))
    if len(log) <= (mutation is swap) or (mutation is swap and at == 0):
        return
    mutation(history, log, at)
    assert history.violations(on_disk=on_disk) != []


@given(seed=seeds, place=st.floats(0, 1, exclude_max=True))
def test_every_missing_dead_letter_is_found(seed: int, place: float) -> None:
    history = History(drawn(seed))
    if history.letters:
        del history.letters[int(place * len(history.letters))]
        assert history.violations() != []


@given(seed=seeds, place=st.floats(0, 1, exclude_max=True))
def test_every_name_of_unread_command_is_found(seed: int, place: float) -> None:
    history = History(drawn(seed), refused=frozenset([0, 5]))
    unread = [at for at, each in enumerate(history.outcomes) if b"fingerprint" not in (each.value or b"")]
    assert history.violations() == []
    at = unread[int(place * len(unread))]
    history.outcomes[at] = edited(history.outcomes[at], causationid="c")
    assert history.violations() != []
