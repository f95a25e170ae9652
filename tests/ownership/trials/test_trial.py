"""Poison-record detection, with workers that die of commands, of operators, and of each other."""

from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.ownership.trials.attempts import ATTEMPTS
from cqrs_cli.ownership.trials.suspects import PARTS, Trial, inherit

MOST = 5000


class Log(NamedTuple):
    """The records that owners of one partition leave."""

    position: int
    trial: Trial | None
    untried: bool


def own(log: Log, length: int, deadly: set[int], kill: int, blamed: Counter[int]) -> tuple[Log, bool]:
    """Run one owner, steps 2 to 5, whose worker dies of a deadly command or after `kill` steps. True if it finished."""
    trial = inherit(log.trial, log.untried, True, MOST)
    trial = trial and trial.within(length - log.position)
    log = Log(log.position, trial, True)
    spared = {trial.blame.offset} if trial and trial.blame and trial.blame.tried >= ATTEMPTS else set()
    for _ in range(kill):
        if log.position >= length:
            return log, True
        trial = log.trial
        limit = trial.limit if trial else MOST
        batch = range(log.position, min(length, log.position + limit))
        if trial and limit == 1:
            log = log._replace(trial=trial.announce(log.position))
        if set(batch) & (deadly - spared):
            return log, False
        blamed.update(spared & set(batch))
        log = Log(batch.stop, trial.passed(len(batch), batch.stop) if trial else None, False)
    return log, False


def rounds(length: int, deadly: set[int], kills: list[int]) -> tuple[int, Counter[int]]:
    """Return the number of owners, and the blamed commands.

    `kills` are steps after which an operator kills the first owners.
    """
    log, blamed = Log(0, None, False), Counter[int]()
    for number in range(10_000):
        kill = kills[number] if number < len(kills) else MOST * PARTS
        log, done = own(log, length, deadly, kill, blamed)
        if done:
            return number, blamed
    raise AssertionError("it never ends")


lengths = st.integers(1, 12_000)


@given(lengths, st.data())
def test_every_deadly_command_is_found(length: int, data: st.DataObject) -> None:
    deadly = data.draw(st.sets(st.integers(0, length - 1), max_size=4))
    deaths, blamed = rounds(length, deadly, [])
    assert set(blamed) == deadly
    assert deaths <= len(deadly) * (3 + ATTEMPTS)


@given(lengths, st.lists(st.integers(0, 300), max_size=12))
def test_killed_owners_blame_nobody(length: int, kills: list[int]) -> None:
    """A kill between two steps does not count as a kill while a suspect is decided."""
    _, blamed = rounds(length, set(), kills)
    assert blamed == Counter()


def test_only_deaths_while_deciding_count() -> None:
    trial = Trial(9).announce(7)
    assert inherit(trial, True, False, MOST) == Trial(9, 7)
    once = inherit(trial, True, True, MOST)
    assert once == Trial(9, 7, deaths=1)
    assert inherit(once, True, True, MOST) == once


def test_deaths_are_counted_by_command() -> None:
    trial: Trial | None = Trial(9)
    for _ in range(ATTEMPTS):
        assert trial is not None
        assert trial.blame is None or trial.blame.tried < ATTEMPTS
        trial = inherit(trial.announce(7), True, True, MOST)
    assert trial is not None and trial.blame is not None
    assert trial.blame == (7, f"the worker died on it {ATTEMPTS} times", ATTEMPTS)
    assert trial.announce(8).deaths == 0
    assert trial.passed(1, 8) == Trial(8)


def test_living_predecessor_leaves_no_suspects() -> None:
    assert inherit(None, True, False, MOST) is None
    assert inherit(None, False, True, MOST) is None
    assert inherit(None, True, True, MOST) == Trial(MOST)


@given(st.integers(1, MOST))
def test_each_death_narrows_the_suspects(suspects: int) -> None:
    before = Trial(suspects)
    after = inherit(before, True, True, MOST)
    assert after is not None
    assert after.suspects < suspects or before.limit == 1


@given(st.integers(1, MOST), st.integers(1, MOST))
def test_suspects_end_with_the_log(suspects: int, left: int) -> None:
    trial = Trial(suspects).within(left)
    assert trial is not None and trial.suspects == min(suspects, left)
    assert Trial(suspects).within(0) is None
    assert trial.passed(trial.suspects, 9) is None


def test_endless_command_is_blamed_at_once() -> None:
    trial = Trial().endless(70, 60)
    assert trial.limit > MOST and trial.blame == (70, "it did not end within 60 s", ATTEMPTS)
    assert inherit(trial, False, True, MOST) == trial.passed(50, 70) == trial
    assert trial.passed(51, 71) is None
    again = trial.endless(70, 60)
    assert again.blame and again.blame.tried > ATTEMPTS
    assert trial.endless(71, 60).blame == (71, "it did not end within 60 s", ATTEMPTS)


def test_deaths_before_an_endless_command_count() -> None:
    trial = inherit(Trial().endless(70, 60), True, True, MOST)
    assert trial is not None and trial.suspects == MOST
    narrower = inherit(trial, True, True, MOST)
    assert narrower is not None and (narrower.suspects, narrower.at) == (MOST // PARTS, 70)


@pytest.mark.parametrize(("deaths", "seen"), [(0, "never"), (1, "once"), (2, "2 times")])
def test_deaths_are_said_in_words(deaths: int, seen: str) -> None:
    trial = Trial(9, 7, deaths, deciding=True)
    assert str(trial) == f"command 7 is decided alone: a worker died on it {seen} so far, at 3 it fails"


def test_announced_command_keeps_its_seconds() -> None:
    assert Trial().endless(70, 60).announce(70).seconds == 60
    assert Trial().endless(70, 60).announce(71).seconds == 0
