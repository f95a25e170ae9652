"""Notices that a topic of events was deleted and made again: a reader may hear of that after minutes, or never."""

import time

from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.processes.explain import topic_made_again
from cqrs_cli.following.processes.plan import ProcessPlan
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
        try:
            with Admin(self._plan.connection) as admin:
                found = admin.describe(list(self._plan.events))
        except UnavailableError:
            return
        for subscription in self._plan.subscriptions:
            topic = subscription.source.topic
            if topic in found and found[topic].topic_id != self._plan.events[topic].topic_id:
                raise topic_made_again(subscription)
