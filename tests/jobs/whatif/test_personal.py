"""Simulating histories with personal fields: no key is needed, and no personal value is compared or shown."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.proof.whatif.decided import Lookahead, decoded_events, decoded_outcomes, join_history
from cqrs_cli.proof.whatif.difference import HistoryDifference
from cqrs_cli.scans.whatif.simulation import PartitionSimulation
from cqrs_cli.scans.whatif.stores import open_stores
from tests.jobs.whatif.histories import RULES, Logs, simulate_history
from tests.proof.deferred.encrypted_command import DeferredHistory, deferred_command
from tests.proof.encrypted_histories import (
    TALLY,
    Add,
    Added,
    EncryptedHistory,
    Tally,
    add,
    erase,
    evolve,
    key,
)
from tests.proof.history import History


def differences_of(
    history: History, changed_code: Aggregate = TALLY, **options: Any
) -> list[HistoryDifference]:
    logs = Logs(history.commands, history.outcomes, history.events)
    return simulate_history(logs, replace(RULES, topic_id="T"), TALLY, changed_code, **options)


@pytest.mark.covers("whatif")
@pytest.mark.parametrize("batch", [1, 2, 100])
@pytest.mark.parametrize("start", [0, 1, 2, 5])
def test_erasures_make_no_difference(start: int, batch: int) -> None:
    """A simulation from any command on, in any batches, finds a key where history had a key."""
    history = EncryptedHistory(
        [add(2, "Ann"), add(1, "Bob", "b"), erase(), erase(), add(1, "Cem"), erase("b")]
    )
    assert differences_of(history, start=start, batch=batch) == []


@pytest.mark.covers("whatif")
@pytest.mark.parametrize("batch", [1, 100])
@pytest.mark.parametrize("start", [0, 1])
def test_named_keys_make_no_difference(start: int, batch: int) -> None:
    history = EncryptedHistory(
        [add(1, "Ann"), erase(key=key(1)), add(1, "Ann"), erase(key=key(1)), add(1, "Bob")]
    )
    assert differences_of(history, start=start, batch=batch) == []


@pytest.mark.covers("whatif")
@pytest.mark.parametrize("batch", [1, 100])
@pytest.mark.parametrize(
    "history",
    [
        DeferredHistory(deferred_command("Ann")),
        DeferredHistory(deferred_command("Ann"), erase()),
        DeferredHistory(deferred_command("Ann"), add(1, "Bob")),
    ],
)
def test_deferred_commands_are_decided_as_sent(history: DeferredHistory, batch: int) -> None:
    assert differences_of(history, batch=batch) == []


def test_temporary_files_are_encrypted() -> None:
    history = EncryptedHistory([add(1, "Ann"), add(1, "Bob"), add(2, "Cem", "b")])
    with ExitStack() as stack:
        stores = open_stores(stack, RULES.dedup_window)
        simulation = PartitionSimulation(replace(RULES, topic_id="T"), TALLY, TALLY, *stores, batch_size=1)
        outcomes = Lookahead(decoded_outcomes(history.outcomes))
        events = Lookahead(decoded_events(history.events))
        assert list(simulation.decide(join_history(history.commands, outcomes, events))) == []
        states = [saved.state for store in stores for _, saved in store.items()]
    assert len(states) == 4 and any(b"$sealed" in state for state in states)
    assert not any(name in state for state in states for name in (b"Ann", b"Bob", b"Cem"))


def decide_greeting(command: Add, tally: Tally) -> Iterator[Added]:
    if command.who == "Ann":
        yield Added(7, f"Dear {command.who}")


CHANGED_CODE = Aggregate.of("tally", cqrs.Decider(decide_greeting, evolve, Tally()))


def test_values_are_decided_on_and_not_shown() -> None:
    history = EncryptedHistory([add(1, "Ann"), add(1, "Bob")])
    first, second, state = differences_of(history, CHANGED_CODE)
    assert (first.kind, second.kind, second.would_result, state.kind) == (
        "events",
        "outcome",
        "unchanged",
        "state",
    )
    values = b"".join(difference.was + difference.would for difference in (first, second, state))
    assert b"Ann" not in values and b"Bob" not in values and b"$sealed" not in values
    assert b'"by":7,"who":""' in first.would
