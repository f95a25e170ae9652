"""How long a run has sent no heartbeat."""

import time

from cqrs_cli.ownership.heartbeats import CONFIRM_AFTER, Heartbeats, SilenceReader


def milliseconds_ago(seconds: float) -> int:
    return int((time.time() - seconds) * 1000)


def silence(*polls: Heartbeats) -> tuple[dict[str, int], list[float]]:
    """Return the silence of the runs a and b, and the pauses between the polls."""
    pauses: list[float] = []
    remaining_polls = iter(polls)
    silent_seconds_by_run = SilenceReader(pauses.append).silent_runs(
        lambda: next(remaining_polls), ["a", "b"]
    )
    return {run: round(seconds) for run, seconds in silent_seconds_by_run.items()}, pauses


def test_killed_runs_are_silent() -> None:
    heartbeats = {"a": milliseconds_ago(56), "b": milliseconds_ago(1), "other": milliseconds_ago(99)}
    assert silence(heartbeats, heartbeats) == ({"a": 56}, [CONFIRM_AFTER])


def test_slow_clocks_are_no_silence() -> None:
    assert silence({"a": milliseconds_ago(56)}, {"a": milliseconds_ago(55)}) == ({}, [CONFIRM_AFTER])


def test_new_heartbeats_are_read_once() -> None:
    assert silence({"a": milliseconds_ago(1)}) == ({}, [])


def test_known_silence_is_not_confirmed() -> None:
    pauses: list[float] = []
    reader, heartbeats = SilenceReader(pauses.append), {"a": milliseconds_ago(56)}
    first, second = (reader.silent_runs(lambda: heartbeats, ["a"]) for _ in range(2))
    assert ([*first, *second], pauses) == (["a", "a"], [CONFIRM_AFTER])
