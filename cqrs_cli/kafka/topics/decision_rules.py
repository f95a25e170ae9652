"""Derives the `DecisionRules` of a partition from the settings and from the limits of its topics."""

from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.core.decision_rules import DecisionRules
from cqrs_cli.core.deferral.deferrals import CLOCK_TOLERANCE, DeferralLimits
from cqrs_cli.kafka.topics.partitioner import Partitioner, partition_function
from cqrs_cli.kafka.topics.topics import AggregateTopics
from cqrs_cli.settings.durations import milliseconds

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings


class DecisionSettings(NamedTuple):
    """The settings that affect decisions. The driver sends them to the Spark tasks."""

    partitioner: Partitioner
    window: int  # the dedup window, ms
    max_attempts: int  # how often `decide` may defer a command
    clock_tolerance: int = CLOCK_TOLERANCE  # ms by which a deferred command may be decided before it is due

    @classmethod
    def of(cls, settings: "Settings") -> "DecisionSettings":
        """Return the decision settings of a project."""
        window = milliseconds(settings.dedup_window)
        clock_tolerance = milliseconds(settings.max_clock_skew)
        return cls(settings.partitioner, window, settings.max_attempts, clock_tolerance)

    def rules(
        self, aggregate_topics: AggregateTopics, partition: int, payload_threshold: float
    ) -> DecisionRules:
        """Return the rules of one partition. Data of more than `payload_threshold` bytes go to the payload store."""
        sizes = aggregate_topics.max_bytes
        return DecisionRules(
            partition,
            aggregate_topics.topics.commands,
            aggregate_topics.ids["commands"],
            partition_function(self.partitioner, aggregate_topics.partitions),
            None,
            self.window,
            sizes["events"],
            DeferralLimits(self.max_attempts, sizes["commands"], sizes["deferred"], self.clock_tolerance),
            payload_threshold,
        )
