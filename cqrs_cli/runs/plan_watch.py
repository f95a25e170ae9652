"""Detects that the plan of a standby run is out of date: topics were repartitioned or recreated, or source files
changed.
"""

from collections.abc import Collection

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.errors import CqrsError
from cqrs_cli.following.processes.plan import ProcessPlan
from cqrs_cli.kafka.admin.topic_identity import track_topics
from cqrs_cli.runs.run_partitions import RunPartition
from cqrs_cli.runs.source_files import SourceWatch

#: Seconds between two checks of the topics. The checks are frequent, because commands in new partitions wait until a
#: run with a new plan has split the old partitions.
_CHECK_INTERVAL = 0.5


class PlanChangedError(CqrsError):
    """The topics have changed since the plan was made. The run must start again with a new plan."""


class PlanWatch:
    """Compares the topics with the ids and partition counts in a run's plan, and the source files with their contents
    at the start.

    Of an aggregate, only the commands topic is checked, because a repartitioning adds partitions to it last.
    """

    def __init__(
        self, plan: Plan, process_plan: ProcessPlan | None, sources: SourceWatch | None = None
    ) -> None:
        self._sources = sources
        aggregate_topics = {info.topics.commands: info for info in plan.topics.values()}
        self._aggregates = {topic: info.topics.aggregate for topic, info in aggregate_topics.items()}
        self._counts = {topic: info.partitions for topic, info in aggregate_topics.items()}
        ids = {topic: info.ids["commands"] for topic, info in aggregate_topics.items()}
        for subscription in () if process_plan is None else process_plan.subscriptions:
            source = subscription.source
            if source.aggregate not in plan.topics and process_plan is not None:
                events_topic = process_plan.events_topics[source.topic]
                self._aggregates[source.topic] = source.aggregate
                self._counts[source.topic], ids[source.topic] = events_topic.partitions, events_topic.topic_id
        self._owned_aggregates: frozenset[str] = frozenset()
        self._topics = track_topics(plan.connection, ids, self._recreated_error, _CHECK_INTERVAL)

    def check(self, owned_partitions: Collection[RunPartition]) -> None:
        """Raise `PlanChangedError` for a topic with new partitions or a new id, `CqrsError` for changed source files.

        The topics of an aggregate are not checked while the run owns one of its partitions, because its owners continue
        until another run takes over. Source files are not checked while the run owns any partition.
        """
        if self._sources is not None and not owned_partitions:
            self._sources.check_if_due()
        self._owned_aggregates = frozenset(_aggregate_of(partition) for partition in owned_partitions)
        for topic, count in self._topics.check_if_due().items():
            if count != self._counts[topic] and self._aggregates[topic] not in self._owned_aggregates:
                raise PlanChangedError(f"{topic} has {count} partitions now, not {self._counts[topic]}")

    def _recreated_error(self, topic: str, is_recreated: bool) -> CqrsError | None:
        if not is_recreated or self._aggregates[topic] in self._owned_aggregates:
            return None
        return PlanChangedError(f"{topic} was recreated")


def _aggregate_of(partition: RunPartition) -> str:
    return partition.aggregate if isinstance(partition, Partition) else partition.source.aggregate
