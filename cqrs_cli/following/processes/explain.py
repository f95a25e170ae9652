"""Error texts about stopped or blocked process managers, with the way to continue.

Poison-record detection (`ownership.trials`) finds an event on which workers die; the process manager stops at it.
"""

from collections.abc import Iterable
from typing import NamedTuple

from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.topics.process_topics import denied_process_acls, process_acls
from cqrs_cli.ownership.trials.attempts import ATTEMPTS
from cqrs_cli.ownership.trials.suspects import Trial


class BlamedEvent(NamedTuple):
    """An event at which the process manager stops, and the reason."""

    offset: int
    why: str


def blamed_event(trial: Trial | None) -> BlamedEvent | None:
    """Return the event on which workers have died often enough; None if there is none."""
    blame = None if trial is None else trial.blame
    return BlamedEvent(blame.offset, blame.why) if blame is not None and blame.tried >= ATTEMPTS else None


def explain_trial(trial: Trial) -> str:
    """Describe the state of poison-record detection for people."""
    blamed = blamed_event(trial)
    if blamed is not None:
        return f"it stops at event {blamed.offset}: {blamed.why}"
    if trial.deciding or trial.deaths:
        often = "once" if trial.deaths == 1 else f"{trial.deaths} times"
        seen = f"{often} so far" if trial.deaths else "never so far"
        return f"event {trial.at} is tried alone: a worker died on it {seen}, at {ATTEMPTS} the process stops"
    return f"a worker died: the next {trial.suspects} events are tried {trial.limit} at a time"


def topic_made_again(subscription: Subscription) -> CqrsError:
    """Return the error for a recreated events topic."""
    return ContradictionError(
        f"{subscription}: the topic was deleted and made again",
        f"find out why; starting it again names where it can go on: cqrs run --process {subscription.process}",
    )


def explain_missing(plan: ProcessPlan, subscription: Subscription) -> CqrsError:
    """Return the error with the names of missing topics; raises `UnavailableError` without a broker."""
    names = [plan.topics(subscription).positions, subscription.source.topic]
    names += [place.topic for place in plan.commands.values()]
    with Admin(plan.connection) as admin:
        found = admin.describe(names)
    lost = ", ".join(name for name in names if name not in found)
    return ConfigurationError(f"{subscription}: {lost or 'a topic'} does not exist", "create it: cqrs init")


def explain_refusal(plan: ProcessPlan, subscription: Subscription, named: Iterable[str]) -> CqrsError:
    """Return the error with the missing ACLs; `named`: the aggregates to which the process manager sends commands."""
    targets = [plan.commands[name].topic for name in named]
    needs = process_acls(plan.topics(subscription), [subscription.source.topic], targets)
    try:
        with Admin(plan.connection) as admin:
            missing = admin.missing_acls(needs)
    except CqrsError as error:
        return error
    if missing:
        return denied_process_acls(missing)
    return ConfigurationError(
        f"{subscription}: the broker does not allow what it does",
        "an ACL has changed, or a Deny stands: docs/processes.md lists what is needed",
    )
