"""The plan of `cqrs whatif`, which the driver sends to each task."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli.client.aggregate_logs import AggregateLogs, complete_key_space
from cqrs_cli.errors import UsageError
from cqrs_cli.kafka.admin.topics import Admin, check_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from cqrs_cli.telemetry.datagrams import Address

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class WhatifPlan(AggregateLogs):
    """The data that each task needs."""

    package: str  # the package with the current code
    root: Path  # folder of the package
    module: str  # the module with the changed code (`--with`), which decides the commands again
    module_root: Path  # folder from which `module` is loaded
    decision_settings: DecisionSettings
    since: int | None = None  # ms since 1970: decide the commands from this time on; None: all commands
    until: int | None = None  # ms since 1970: decide the commands up to this time; None: all commands
    #: Instead of `until`: partition → offset after the last command to decide.
    ends: Mapping[int, int] | None = None
    report_address: Address | None = None  # where tasks send progress reports

    def until_offset(self, log: PartitionLog, commands_end: int) -> int | None:
        """Return the offset after the last requested command; None if all commands from `since` on are requested.

        `commands_end`: the end of the commands log. Raises `UsageError` if `ends` has an offset after this end.
        """
        if self.ends is None:
            return None if self.until is None else log.offset_at("commands", self.until + 1)
        end = self.ends.get(log.partition, 0)  # 0: the partition did not exist yet
        if end > commands_end:
            raise UsageError(
                f"{log.log_name('commands')} has no offset {end}: it ends at {commands_end}",
                "give the offsets of this topic",
            )
        return end

    @property
    def families(self) -> range:
        """The partitions that existed from the start. Each task decides such a partition and its descendants."""
        return range(self.key_space.counts[0])


def plan_whatif(
    connection: Connection,
    topics: Topics,
    settings: "Settings",
    module: str,
    since: int | None = None,
    until: int | None = None,
    ends: Mapping[int, int] | None = None,
) -> WhatifPlan:
    """Return the plan to decide again the commands from the time `since` up to the time `until`, both in ms.

    `module`: the module with the changed code. `ends`, instead of `until`: partition → the end offset of its commands.

    Raises `ConfigurationError` for topics that are missing or set up wrongly.
    """
    with Admin(connection) as admin:
        described_topics = check_topics(admin, topics, TopicPlan(dedup_window=settings.dedup_window))
    return WhatifPlan(
        connection,
        described_topics,
        complete_key_space(connection, described_topics, settings.partitioner),
        settings.aggregates,
        settings.root,
        module,
        settings.root,
        DecisionSettings.of(settings),
        since,
        until,
        ends,
    )
