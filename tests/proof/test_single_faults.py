"""Every single fault in a drawn history is found."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.record import Record
from tests.proof.history import History, appended, drawn, seeds, swapped, with_value
from tests.support.rewriting import edited


def drop(history: History, log: list[Record], at: int) -> None:
    del log[at]


def double(history: History, log: list[Record], at: int) -> None:
    appended(log, log[at])


def double_beside(history: History, log: list[Record], at: int) -> None:
    log.insert(at, log[at])


def swap(history: History, log: list[Record], at: int) -> None:
    swapped(log, at - 1, at)


def forge_version(history: History, log: list[Record], at: int) -> None:
    name = "aggregateversion" if log is history.events else "version"
    members = json.loads(log[at].value or b"")
    found = members if log is history.events else members["data"]
    forged = {name: found[name] + 1}
    log[at] = edited(log[at], **forged) if log is history.events else edited(log[at], forged)


def forge_count(history: History, log: list[Record], at: int) -> None:
    members = json.loads(log[at].value or b"")
    if log is history.events:
        log[at] = edited(log[at], eventcount=members["eventcount"] + 1)
    else:
        log[at] = edited(log[at], {"events": members["data"]["events"] + 1})


def garble(history: History, log: list[Record], at: int) -> None:
    log[at] = with_value(log[at], b"?")


def forge_status(history: History, log: list[Record], at: int) -> None:
    status = json.loads(log[at].value or b"")["data"].get("status")
    if status is None:  # an event has none
        log[at] = edited(log[at], id="1/0")
    else:
        log[at] = edited(log[at], {"status": "duplicate" if status != "duplicate" else "agreed"})


def forge_type(history: History, log: list[Record], at: int) -> None:
    log[at] = edited(log[at], type="tally.Forgotten")


def forge_data(history: History, log: list[Record], at: int) -> None:
    log[at] = edited(log[at], {"by": "x", "version": "x"})


def empty(history: History, log: list[Record], at: int) -> None:
    log[at] = with_value(log[at], None)


FAULTS = [
    drop,
    double,
    double_beside,
    swap,
    forge_version,
    forge_count,
    forge_status,
    forge_type,
    forge_data,
    garble,
    empty,
]


@pytest.mark.pins("verifiable")
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
