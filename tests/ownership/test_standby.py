"""When a standby may take over: pure tests, with its own clock alone."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cqrs_cli.ownership.claim import TERMINAL, Claim, Judgement, judge
from cqrs_cli.ownership.committed_claims import UnchangedTimer
from cqrs_cli.ownership.heartbeats import Heartbeats, parse_heartbeats
from cqrs_cli.ownership.standby import (
    OtherHeartbeats,
    can_take_over,
    next_claim,
    run_and_heartbeat,
    takeover_timeout,
    wait_for_takeover,
)
from tests.ownership.claims import OWN_CLAIM, claims

OTHER = replace(OWN_CLAIM, run="other", run_epoch=99)


def test_ended_run_needs_no_silence() -> None:
    assert can_take_over(OWN_CLAIM, None, 0.0, 2.0)
    assert can_take_over(OWN_CLAIM, replace(OTHER, attempt=TERMINAL), 0.0, 2.0)
    assert can_take_over(OWN_CLAIM, replace(OWN_CLAIM, attempt=7), 0.0, 2.0)


def test_run_at_work_is_waited_for() -> None:
    assert not can_take_over(OWN_CLAIM, OTHER, 2.0, 2.0)
    assert can_take_over(OWN_CLAIM, OTHER, 2.1, 2.0)


def test_silence_ends_with_each_beat() -> None:
    silence = UnchangedTimer()
    assert silence.seconds_unchanged(run_and_heartbeat(OTHER, {"other": 1}), 0.0, 0.1) == 0.0
    assert silence.seconds_unchanged(run_and_heartbeat(OTHER, {"other": 1}), 1.6, 1.7) == 1.5
    assert silence.seconds_unchanged(run_and_heartbeat(OTHER, {"other": 2}), 3.0, 3.1) == 0.0


def test_beats_of_strangers_do_not_count() -> None:
    assert run_and_heartbeat(OTHER, {"stranger": 1}) == run_and_heartbeat(OTHER, {})
    assert run_and_heartbeat(OTHER, {"other": 1}) != run_and_heartbeat(OTHER, {})


@given(claims, st.none() | claims, st.integers(0, 2**53))
def test_claim_rises_above_the_one_before(own_claim: Claim, previous: Claim | None, clock: int) -> None:
    own_claim = next_claim(own_claim, previous, clock)
    assert (
        previous is None or previous.run == own_claim.run or judge(own_claim, previous) is Judgement.EARLIER
    )


@given(claims, st.integers(0, 9))
def test_later_attempts_of_one_run_follow(claim: Claim, submission: int) -> None:
    """A resubmitted task is not superseded by the earlier task of its own run."""
    later = replace(claim, run_epoch=1, submission=claim.submission + 1 + submission)
    assert judge(next_claim(later, claim, 0), claim) is Judgement.EARLIER


def test_turn_comes_when_the_run_ends() -> None:
    polls: Iterator[tuple[Claim | None, Heartbeats]] = iter(
        [(OTHER, {}), (OTHER, {"other": 1}), (replace(OTHER, attempt=TERMINAL), {})]
    )
    seen_claims: list[Claim] = []
    claim = wait_for_takeover(
        lambda: next(polls), OWN_CLAIM, 0.1, threading.Event(), seen_claims.append, lambda: True
    )
    assert claim is not None and claim.run_epoch > OTHER.run_epoch and seen_claims == [OTHER, OTHER]


class Waiting(threading.Event):
    """An event that waits by its own clock, in no time."""

    now = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0.0
        return False


@given(st.text(max_size=9), st.floats(0.1, 60.0))
def test_turn_comes_where_patience_ends(run: str, after: float) -> None:
    """The takeover does not wait for the next poll."""
    own_claim, waiting = replace(OWN_CLAIM, run=run + "'s"), Waiting()
    turn = wait_for_takeover(
        lambda: (OTHER, {}), own_claim, after, waiting, lambda _: None, lambda: True, lambda: waiting.now
    )
    assert turn is not None and waiting.now == pytest.approx(takeover_timeout(own_claim.run, after), abs=0.01)


@given(st.floats(2.0, 600.0))
def test_own_pauses_are_no_silence(paused: float) -> None:
    """A poll returned an old answer because the process was paused. The active run has sent heartbeats since."""
    waiting = Waiting()
    beats: Iterator[int] = iter([1, 1, 2, 3])

    def poll() -> tuple[Claim | None, Heartbeats]:
        number = next(beats)
        waiting.now += paused
        return (None if number == 3 else OTHER), {"other": number}

    told: list[Claim] = []
    turn = wait_for_takeover(poll, OWN_CLAIM, 1.0, waiting, told.append, lambda: True, lambda: waiting.now)
    assert turn is not None and len(told) == 3


@given(st.floats(0.01, 1.0))
def test_polls_come_as_often_as_asked(every: float) -> None:
    polls: Iterator[tuple[Claim | None, Heartbeats]] = iter([(OTHER, {})] * 3 + [(None, {})])
    waiting, now = Waiting(), lambda: 0.0
    turn = wait_for_takeover(
        lambda: next(polls), OWN_CLAIM, 60.0, waiting, lambda _: None, lambda: True, now, every
    )
    assert turn is not None and waiting.now == pytest.approx(3 * every)


@given(st.text())
def test_patience_is_a_little_more_than_asked(run: str) -> None:
    """The timeout is the same for all partitions of a run, so the run takes over all of them or none."""
    assert 2.0 <= takeover_timeout(run, 2.0) == takeover_timeout(run, 2.0) <= 2.2


def test_stopping_ends_the_waiting() -> None:
    stopping = threading.Event()
    turn = wait_for_takeover(
        lambda: (OTHER, {}), OWN_CLAIM, 60.0, stopping, lambda _: stopping.set(), lambda: True
    )
    assert turn is None


def test_unfit_runs_leave_their_turn() -> None:
    stopping, asked = threading.Event(), list[bool]()

    def is_ready() -> bool:
        asked.append(len(asked) == 2)
        return asked[-1]

    ended: tuple[Claim, Heartbeats] = (replace(OTHER, attempt=TERMINAL), {})
    turn = wait_for_takeover(lambda: ended, OWN_CLAIM, 0.01, stopping, lambda _: None, is_ready)
    assert turn is not None and asked == [False, False, True]


def test_other_texts_are_no_beats() -> None:
    assert [parse_heartbeats(text) for text in ("", "[]", "\0", OWN_CLAIM.metadata())] == [{}] * 4


def test_two_runs_keep_each_others_beats() -> None:
    """Each run keeps the heartbeats of other runs when it writes its own. The heartbeat of an ended run is dropped."""
    others = OtherHeartbeats("mine")
    assert others.keep_active({"other": 1, "mine": 1}, 0.0, 0.1) == {"other": 1}
    assert others.keep_active({"other": 1, "mine": 2}, 9.0, 9.1) == {"other": 1}
    assert others.keep_active({"other": 1, "mine": 3}, 10.2, 10.3) == {}
    assert others.keep_active({"other": 2, "mine": 4}, 11.0, 11.1) == {"other": 2}


def test_turn_comes_when_run_splits() -> None:
    claim = wait_for_takeover(
        lambda: (OTHER, {}),
        OWN_CLAIM,
        60.0,
        threading.Event(),
        lambda _: None,
        lambda: True,
        may_ignore_claim=lambda _: True,
    )
    assert claim is not None and claim.run_epoch > OTHER.run_epoch
