"""Notices that a topic of events was deleted and made again: a reader may hear of that after minutes, or never."""

import time
from collections.abc import Iterable

from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.processes.explain import topic_made_again
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.event_tail import check_sizes

#: Seconds between two looks at the topics.
_EVERY = 10.0


class TopicsCheck:
    """Looks at the ids of the events topics from time to time."""

    def __init__(self, plan: ProcessPlan) -> None:
        self._plan, self._looked = plan, time.monotonic()

    def look(self) -> None:
        """Raise `ContradictionError` if one is another topic than the plan knows, `OutgrownError` if one has partitions
        that nobody hears. Without a broker nothing happens.
        """
        if time.monotonic() - self._looked < _EVERY:
            return
        self._looked = time.monotonic()
        sizes = check_heard_topics(self._plan, self._plan.subscriptions)
        if self._plan.targets is None:
            check_sizes(sizes, [one.source for one in self._plan.subscriptions])


def check_heard_topics(plan: ProcessPlan, subscriptions: Iterable[Subscription]) -> dict[str, int]:
    """The number of partitions of each topic that these hear; none without a broker.

    Raises `ContradictionError` if one of them is another topic than the plan knows.
    """
    topics = {one: one.source.topic for one in subscriptions}
    try:
        with Admin(plan.connection) as admin:
            found = admin.describe(set(topics.values()))
    except UnavailableError:
        return {}
    for subscription, topic in topics.items():
        if topic in found and found[topic].topic_id != plan.events[topic].topic_id:
            raise topic_made_again(subscription)
    return {topic: info.partitions for topic, info in found.items()}
