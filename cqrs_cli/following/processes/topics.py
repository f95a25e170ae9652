"""Notices that a topic of events was deleted and made again: a reader may hear of that after minutes, or never."""

import time
from collections.abc import Iterable

from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.processes.explain import topic_made_again
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.kafka.admin.topics import Admin

#: Seconds between two looks at the topics.
_EVERY = 10.0


class TopicsCheck:
    """Looks at the ids of the events topics from time to time."""

    def __init__(self, plan: ProcessPlan) -> None:
        self._plan, self._looked = plan, time.monotonic()

    def look(self) -> None:
        """Raise `ContradictionError` if one is another topic than the plan knows. Without a broker nothing happens."""
        if time.monotonic() - self._looked < _EVERY:
            return
        self._looked = time.monotonic()
        check_heard_topics(self._plan, self._plan.subscriptions)


def check_heard_topics(plan: ProcessPlan, subscriptions: Iterable[Subscription]) -> None:
    """Raise `ContradictionError` if one of these hears another topic than the plan knows. Without a broker nothing
    happens.
    """
    topics = {one: one.source.topic for one in subscriptions}
    try:
        with Admin(plan.connection) as admin:
            found = admin.describe(set(topics.values()))
    except UnavailableError:
        return
    for subscription, topic in topics.items():
        if topic in found and found[topic].topic_id != plan.events[topic].topic_id:
            raise topic_made_again(subscription)
