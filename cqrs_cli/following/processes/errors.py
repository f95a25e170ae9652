"""Errors of stopped or blocked process managers, with the way to continue.

Poison-record detection (`ownership.poison_detection`) finds an event that kills workers. The process manager stops at
this event.
"""

from collections.abc import Iterable
from typing import NamedTuple

from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.topics.process_topics import denied_process_acls_error, process_acls
from cqrs_cli.ownership.poison_detection.attempts import ATTEMPTS
from cqrs_cli.ownership.poison_detection.suspects import Suspects


class PoisonEvent(NamedTuple):
    """An event at which the process manager stops, and the reason."""

    offset: int
    reason: str


def poison_event(suspects: Suspects | None) -> PoisonEvent | None:
    """Return the event that has killed workers `ATTEMPTS` times; None if there is no such event."""
    culprit = None if suspects is None else suspects.culprit
    if culprit is None or culprit.attempts < ATTEMPTS:
        return None
    return PoisonEvent(culprit.offset, culprit.reason)


def describe_suspects(suspects: Suspects) -> str:
    """Describe the state of poison-record detection for people."""
    poison = poison_event(suspects)
    if poison is not None:
        return f"it stops at event {poison.offset}: {poison.reason}"
    if suspects.deciding or suspects.deaths:
        deaths = "once" if suspects.deaths == 1 else f"{suspects.deaths} times"
        so_far = f"{deaths} so far" if suspects.deaths else "never yet"
        return (
            f"event {suspects.announced} is tried alone: a worker died on it {so_far}, "
            f"after {ATTEMPTS} deaths the process manager stops"
        )
    return f"a worker died: the next {suspects.count} events are tried {suspects.limit} at a time"


def recreated_topic_error(subscription: Subscription) -> CqrsError:
    """Return the error for a recreated events topic."""
    return ContradictionError(
        f"{subscription}: the topic was recreated",
        "find out why; the error of the next start has the option to continue: cqrs run --process "
        f"{subscription.process}",
    )


def missing_topic_error(plan: ProcessPlan, subscription: Subscription) -> CqrsError:
    """Return the error with the names of the missing topics; raises `UnavailableError` if no broker responds."""
    names = [plan.topics(subscription).positions_topic, subscription.source.topic]
    names += [output.topic for output in plan.outputs.values()]
    with Admin(plan.connection) as admin:
        existing = admin.describe(names)
    missing = ", ".join(name for name in names if name not in existing)
    return ConfigurationError(
        f"{subscription}: {missing or 'a topic'} does not exist", "create it: cqrs init"
    )


def missing_acl_error(
    plan: ProcessPlan, subscription: Subscription, output_topics: Iterable[str]
) -> CqrsError:
    """Return the error with the missing ACLs; `output_topics`: the topics, without prefix, in the code."""
    topics = [plan.outputs[name].topic for name in output_topics]
    required_acls = process_acls(plan.topics(subscription), [subscription.source.topic], topics)
    try:
        with Admin(plan.connection) as admin:
            missing = admin.missing_acls(required_acls)
    except CqrsError as error:
        return error
    if missing:
        return denied_process_acls_error(missing)
    return ConfigurationError(
        f"{subscription}: the broker does not allow all operations of the process manager",
        "an ACL was changed, or a Deny ACL exists: docs/processes.md lists the required ACLs",
    )
