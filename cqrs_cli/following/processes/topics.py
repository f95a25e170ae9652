"""Checks that the events topics of subscriptions are not recreated."""

from collections.abc import Collection

from cqrs_cli.errors import CqrsError
from cqrs_cli.following.processes.errors import recreated_topic_error
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.kafka.admin.topic_identity import TopicIdentity, track_topics


def events_topic_identity(plan: ProcessPlan, subscriptions: Collection[Subscription]) -> TopicIdentity:
    """Return the check for recreated events topics. It ignores deleted topics: their owners wait, because the topic may
    be restored.
    """
    subscription_by_topic = {subscription.source.topic: subscription for subscription in subscriptions}

    def topic_error(topic: str, is_recreated: bool) -> CqrsError | None:
        return recreated_topic_error(subscription_by_topic[topic]) if is_recreated else None

    return track_topics(
        plan.connection,
        {topic: plan.events_topics[topic].topic_id for topic in subscription_by_topic},
        topic_error,
    )
