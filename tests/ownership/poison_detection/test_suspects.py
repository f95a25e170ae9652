"""Poison-record detection, with workers that are killed by commands, by operators, and with each other."""

from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.ownership.poison_detection.attempts import ATTEMPTS
from cqrs_cli.ownership.poison_detection.suspects import PARTS, Suspects, inherit_suspects

BATCH_LIMIT = 5000


class Log(NamedTuple):
    """The records that owners of one partition leave."""

    position: int
    suspects: Suspects | None
    untried: bool


def run_owner(
    log: Log, length: int, deadly_offsets: set[int], kill_after: int, culprits: Counter[int]
) -> tuple[Log, bool]:
    """Run one owner, steps 2 to 5, whose worker dies of a deadly command or after `kill_after` steps. True if it
    finished.
    """
    suspects = inherit_suspects(log.suspects, log.untried, True, BATCH_LIMIT)
    suspects = suspects and suspects.limited_to(length - log.position)
    log = Log(log.position, suspects, True)
    failing = (
        {suspects.culprit.offset}
        if suspects and suspects.culprit and suspects.culprit.attempts >= ATTEMPTS
        else set()
    )
    for _ in range(kill_after):
        if log.position >= length:
            return log, True
        suspects = log.suspects
        limit = suspects.limit if suspects else BATCH_LIMIT
        batch = range(log.position, min(length, log.position + limit))
        if suspects and limit == 1:
            log = log._replace(suspects=suspects.announce(log.position))
        if set(batch) & (deadly_offsets - failing):
            return log, False
        culprits.update(failing & set(batch))
        log = Log(batch.stop, suspects.after_decided(len(batch), batch.stop) if suspects else None, False)
    return log, False


def run_owners(length: int, deadly_offsets: set[int], kill_steps: list[int]) -> tuple[int, Counter[int]]:
    """Return the number of owners, and how often each culprit's batch was committed.

    `kill_steps` are steps after which an operator kills the first owners.
    """
    log, culprits = Log(0, None, False), Counter[int]()
    for number in range(10_000):
        kill_after = kill_steps[number] if number < len(kill_steps) else BATCH_LIMIT * PARTS
        log, is_finished = run_owner(log, length, deadly_offsets, kill_after, culprits)
        if is_finished:
            return number, culprits
    raise AssertionError("it never ends")


lengths = st.integers(1, 12_000)


@given(lengths, st.data())
def test_every_deadly_command_is_found(length: int, data: st.DataObject) -> None:
    deadly_offsets = data.draw(st.sets(st.integers(0, length - 1), max_size=4))
    deaths, culprits = run_owners(length, deadly_offsets, [])
    assert set(culprits) == deadly_offsets
    assert deaths <= len(deadly_offsets) * (3 + ATTEMPTS)


@given(lengths, st.lists(st.integers(0, 300), max_size=12))
def test_killed_owners_blame_no_command(length: int, kill_steps: list[int]) -> None:
    """A kill between two steps does not count as a kill while a suspect is decided."""
    _, culprits = run_owners(length, set(), kill_steps)
    assert culprits == Counter()


def test_only_deaths_while_deciding_count() -> None:
    suspects = Suspects(9).announce(7)
    assert inherit_suspects(suspects, True, False, BATCH_LIMIT) == Suspects(9, 7)
    after_death = inherit_suspects(suspects, True, True, BATCH_LIMIT)
    assert after_death == Suspects(9, 7, deaths=1)
    assert inherit_suspects(after_death, True, True, BATCH_LIMIT) == after_death


def test_deaths_are_counted_by_command() -> None:
    suspects: Suspects | None = Suspects(9)
    for _ in range(ATTEMPTS):
        assert suspects is not None
        assert suspects.culprit is None or suspects.culprit.attempts < ATTEMPTS
        suspects = inherit_suspects(suspects.announce(7), True, True, BATCH_LIMIT)
    assert suspects is not None and suspects.culprit is not None
    assert suspects.culprit == (7, f"the worker died on it {ATTEMPTS} times", ATTEMPTS)
    assert suspects.announce(8).deaths == 0
    assert suspects.after_decided(1, 8) == Suspects(8)


def test_living_owner_leaves_no_suspects() -> None:
    assert inherit_suspects(None, True, False, BATCH_LIMIT) is None
    assert inherit_suspects(None, False, True, BATCH_LIMIT) is None
    assert inherit_suspects(None, True, True, BATCH_LIMIT) == Suspects(BATCH_LIMIT)


@given(st.integers(1, BATCH_LIMIT))
def test_each_death_narrows_the_suspects(count: int) -> None:
    suspects = Suspects(count)
    inherited_suspects = inherit_suspects(suspects, True, True, BATCH_LIMIT)
    assert inherited_suspects is not None
    assert inherited_suspects.count < count or suspects.limit == 1


@given(st.integers(1, BATCH_LIMIT), st.integers(1, BATCH_LIMIT))
def test_suspects_end_with_the_log(count: int, log_size: int) -> None:
    suspects = Suspects(count).limited_to(log_size)
    assert suspects is not None and suspects.count == min(count, log_size)
    assert Suspects(count).limited_to(0) is None
    assert suspects.after_decided(suspects.count, 9) is None


def test_endless_command_is_blamed_at_once() -> None:
    suspects = Suspects().after_hang(70, 60)
    assert suspects.limit > BATCH_LIMIT and suspects.culprit == (70, "it did not end within 60 s", ATTEMPTS)
    assert inherit_suspects(suspects, False, True, BATCH_LIMIT) == suspects.after_decided(50, 70) == suspects
    assert suspects.after_decided(51, 71) is None
    hung_again = suspects.after_hang(70, 60)
    assert hung_again.culprit and hung_again.culprit.attempts > ATTEMPTS
    assert suspects.after_hang(71, 60).culprit == (71, "it did not end within 60 s", ATTEMPTS)


def test_deaths_before_an_endless_command_count() -> None:
    suspects = inherit_suspects(Suspects().after_hang(70, 60), True, True, BATCH_LIMIT)
    assert suspects is not None and suspects.count == BATCH_LIMIT
    narrowed = inherit_suspects(suspects, True, True, BATCH_LIMIT)
    assert narrowed is not None and (narrowed.count, narrowed.announced) == (BATCH_LIMIT // PARTS, 70)


@pytest.mark.parametrize(
    ("deaths", "text"),
    [
        (0, "no worker died on it"),
        (1, "a worker died on it once"),
        (2, "a worker died on it 2 times"),
    ],
)
def test_deaths_are_counted_in_text(deaths: int, text: str) -> None:
    suspects = Suspects(9, announced=7, deaths=deaths, deciding=True)
    assert str(suspects) == f"command 7 is decided alone: {text} so far, after 3 deaths it fails"


def test_announced_command_keeps_its_seconds() -> None:
    assert Suspects().after_hang(70, 60).announce(70).seconds == 60
    assert Suspects().after_hang(70, 60).announce(71).seconds == 0
