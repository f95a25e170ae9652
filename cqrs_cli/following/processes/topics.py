"""Checks that the events topics of subscriptions are not recreated."""

from collections.abc import Collection

from cqrs_cli.errors import CqrsError
from cqrs_cli.following.processes.explain import topic_made_again
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.kafka.admin.topic_identity import TopicIdentity, track_topics


def heard_topics(plan: ProcessPlan, subscriptions: Collection[Subscription]) -> TopicIdentity:
    """Return the check of the events topics. It ignores a deleted topic: its owners wait, as it may come back."""
    hearing = {one.source.topic: one for one in subscriptions}

    def changed(topic: str, made_again: bool) -> CqrsError | None:
        return topic_made_again(hearing[topic]) if made_again else None

    return track_topics(plan.connection, {topic: plan.events[topic].topic_id for topic in hearing}, changed)
