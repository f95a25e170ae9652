"""Finding the one event on which workers die, by the trials of `owner.trials`: the process stops at it."""

from typing import NamedTuple

from cqrs_cli.owner.trials.attempts import ATTEMPTS
from cqrs_cli.owner.trials.trial import Trial


class BlamedEvent(NamedTuple):
    """An event at which the process stops, and why."""

    offset: int
    why: str


def blamed_event(trial: Trial | None) -> BlamedEvent | None:
    """The event on which workers died often enough; None if there is none."""
    blame = None if trial is None else trial.blame
    return BlamedEvent(blame.offset, blame.why) if blame is not None and blame.tried >= ATTEMPTS else None


def explain_trial(trial: Trial) -> str:
    """A trial for people."""
    blamed = blamed_event(trial)
    if blamed is not None:
        return f"it stops at event {blamed.offset}: {blamed.why}"
    if trial.deciding or trial.deaths:
        often = "once" if trial.deaths == 1 else f"{trial.deaths} times"
        seen = f"{often} so far" if trial.deaths else "never so far"
        return f"event {trial.at} is tried alone: a worker died on it {seen}, at {ATTEMPTS} the process stops"
    return f"a worker died: the next {trial.suspects} events are tried {trial.limit} at a time"
