"""When a standby run may take over: pure tests, in which the run reads only its own clock."""

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

OTHER_CLAIM = replace(OWN_CLAIM, run="other", run_epoch=99)


def test_ended_run_needs_no_silence() -> None:
    assert can_take_over(OWN_CLAIM, None, 0.0, 2.0)
    assert can_take_over(OWN_CLAIM, replace(OTHER_CLAIM, attempt=TERMINAL), 0.0, 2.0)
    assert can_take_over(OWN_CLAIM, replace(OWN_CLAIM, attempt=7), 0.0, 2.0)


def test_active_run_is_waited_for() -> None:
    assert not can_take_over(OWN_CLAIM, OTHER_CLAIM, 2.0, 2.0)
    assert can_take_over(OWN_CLAIM, OTHER_CLAIM, 2.1, 2.0)


def test_silence_ends_with_each_heartbeat() -> None:
    silence = UnchangedTimer()
    assert silence.seconds_unchanged(run_and_heartbeat(OTHER_CLAIM, {"other": 1}), 0.0, 0.1) == 0.0
    assert silence.seconds_unchanged(run_and_heartbeat(OTHER_CLAIM, {"other": 1}), 1.6, 1.7) == 1.5
    assert silence.seconds_unchanged(run_and_heartbeat(OTHER_CLAIM, {"other": 2}), 3.0, 3.1) == 0.0


def test_heartbeats_of_other_runs_do_not_count() -> None:
    assert run_and_heartbeat(OTHER_CLAIM, {"stranger": 1}) == run_and_heartbeat(OTHER_CLAIM, {})
    assert run_and_heartbeat(OTHER_CLAIM, {"other": 1}) != run_and_heartbeat(OTHER_CLAIM, {})


@given(claims, st.none() | claims, st.integers(0, 2**53))
def test_next_claim_exceeds_the_previous_claim(own_claim: Claim, previous: Claim | None, clock: int) -> None:
    own_claim = next_claim(own_claim, previous, clock)
    assert (
        previous is None or previous.run == own_claim.run or judge(own_claim, previous) is Judgement.EARLIER
    )


@given(claims, st.integers(0, 9))
def test_later_attempt_takes_over_its_run(claim: Claim, submission: int) -> None:
    """A resubmitted task is not superseded by the earlier task of its own run."""
    later_claim = replace(claim, run_epoch=1, submission=claim.submission + 1 + submission)
    assert judge(next_claim(later_claim, claim, 0), claim) is Judgement.EARLIER


def test_takeover_when_the_run_ends() -> None:
    polls: Iterator[tuple[Claim | None, Heartbeats]] = iter(
        [(OTHER_CLAIM, {}), (OTHER_CLAIM, {"other": 1}), (replace(OTHER_CLAIM, attempt=TERMINAL), {})]
    )
    seen_claims: list[Claim] = []
    claim = wait_for_takeover(
        lambda: next(polls), OWN_CLAIM, 0.1, threading.Event(), seen_claims.append, lambda: True
    )
    assert (
        claim is not None
        and claim.run_epoch > OTHER_CLAIM.run_epoch
        and seen_claims == [OTHER_CLAIM, OTHER_CLAIM]
    )


class FakeTimeEvent(threading.Event):
    """An event whose `wait` only advances its own clock `now`."""

    now = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0.0
        return False


@given(st.text(max_size=9), st.floats(0.1, 60.0))
def test_takeover_at_the_timeout(run: str, timeout: float) -> None:
    """The takeover does not wait for the next poll."""
    own_claim, event = replace(OWN_CLAIM, run=run + "'s"), FakeTimeEvent()
    claim = wait_for_takeover(
        lambda: (OTHER_CLAIM, {}), own_claim, timeout, event, lambda _: None, lambda: True, lambda: event.now
    )
    assert claim is not None and event.now == pytest.approx(
        takeover_timeout(own_claim.run, timeout), abs=0.01
    )


@given(st.floats(2.0, 600.0))
def test_own_pauses_do_not_count_as_silence(paused: float) -> None:
    """A poll returned an old answer because the process was paused. The active run has sent heartbeats since."""
    event = FakeTimeEvent()
    heartbeats: Iterator[int] = iter([1, 1, 2, 3])

    def poll() -> tuple[Claim | None, Heartbeats]:
        number = next(heartbeats)
        event.now += paused
        return (None if number == 3 else OTHER_CLAIM), {"other": number}

    reported_claims: list[Claim] = []
    claim = wait_for_takeover(
        poll, OWN_CLAIM, 1.0, event, reported_claims.append, lambda: True, lambda: event.now
    )
    assert claim is not None and len(reported_claims) == 3


@given(st.floats(0.01, 1.0))
def test_poll_interval_is_kept(interval: float) -> None:
    polls: Iterator[tuple[Claim | None, Heartbeats]] = iter([(OTHER_CLAIM, {})] * 3 + [(None, {})])
    event, now = FakeTimeEvent(), lambda: 0.0
    claim = wait_for_takeover(
        lambda: next(polls), OWN_CLAIM, 60.0, event, lambda _: None, lambda: True, now, interval
    )
    assert claim is not None and event.now == pytest.approx(3 * interval)


@given(st.text())
def test_timeout_has_a_little_jitter(run: str) -> None:
    """The timeout is the same for all partitions of a run, so the run takes over all of them or none."""
    assert 2.0 <= takeover_timeout(run, 2.0) == takeover_timeout(run, 2.0) <= 2.2


def test_stopping_ends_the_wait() -> None:
    stopping = threading.Event()
    claim = wait_for_takeover(
        lambda: (OTHER_CLAIM, {}), OWN_CLAIM, 60.0, stopping, lambda _: stopping.set(), lambda: True
    )
    assert claim is None


def test_unready_standby_does_not_take_over() -> None:
    stopping, responses = threading.Event(), list[bool]()

    def is_ready() -> bool:
        responses.append(len(responses) == 2)
        return responses[-1]

    ended_poll: tuple[Claim, Heartbeats] = (replace(OTHER_CLAIM, attempt=TERMINAL), {})
    claim = wait_for_takeover(lambda: ended_poll, OWN_CLAIM, 0.01, stopping, lambda _: None, is_ready)
    assert claim is not None and responses == [False, False, True]


def test_other_texts_are_no_heartbeats() -> None:
    assert [parse_heartbeats(text) for text in ("", "[]", "\0", OWN_CLAIM.metadata())] == [{}] * 4


def test_runs_keep_each_others_heartbeats() -> None:
    """Each run keeps the heartbeats of other runs when it writes its own. The heartbeat of an ended run is dropped."""
    other_heartbeats = OtherHeartbeats("mine")
    assert other_heartbeats.keep_active({"other": 1, "mine": 1}, 0.0, 0.1) == {"other": 1}
    assert other_heartbeats.keep_active({"other": 1, "mine": 2}, 9.0, 9.1) == {"other": 1}
    assert other_heartbeats.keep_active({"other": 1, "mine": 3}, 10.2, 10.3) == {}
    assert other_heartbeats.keep_active({"other": 2, "mine": 4}, 11.0, 11.1) == {"other": 2}


def test_takeover_when_the_run_splits() -> None:
    claim = wait_for_takeover(
        lambda: (OTHER_CLAIM, {}),
        OWN_CLAIM,
        60.0,
        threading.Event(),
        lambda _: None,
        lambda: True,
        may_ignore_claim=lambda _: True,
    )
    assert claim is not None and claim.run_epoch > OTHER_CLAIM.run_epoch
