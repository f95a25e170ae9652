"""The names of a process manager's positions topic, consumer group and transactional ids, and the required ACLs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.topic_info import TopicInfo, diskless_errors
from cqrs_cli.kafka.topics.topics import min_insync_replicas


@dataclass(frozen=True, slots=True)
class ProcessTopics:
    """The names of a process manager's topic, group and transactional ids. `prefix`: the setting `topic_prefix`."""

    process: str
    prefix: str = ""

    @property
    def positions_topic(self) -> str:
        """The compacted topic of positions. The newest record of each events partition contains the process manager's
        position, and the claim of the owner.
        """
        return f"{self.prefix}process.{self.process}.positions"

    @property
    def group(self) -> str:
        """The consumer group. Its committed offsets are a copy of the positions."""
        return f"cqrs.{self.prefix}process.{self.process}"

    @property
    def transactional_ids(self) -> str:
        """The prefix of all transactional ids of the process manager."""
        return f"{self.group}."

    def transactional_id(self, topic: str, partition: int) -> str:
        """Return the transactional id of the writer for an events partition. It is the same in every run, so a new
        writer fences the previous writer.
        """
        return f"{self.transactional_ids}{topic}.{partition}"

    def configs(self, brokers: int) -> dict[str, str]:
        """Return the configuration of the positions topic. Segments are small, so that they are soon compacted: each
        owner reads the whole topic when it starts.
        """
        return {
            "cleanup.policy": "compact",
            "segment.bytes": str(4 * 1024 * 1024),
            "min.cleanable.dirty.ratio": "0.1",
            "min.insync.replicas": min_insync_replicas(brokers),
        }

    def config_error(self, info: TopicInfo | None) -> ConfigurationError | None:
        """Return the error for a topic that is missing or has wrong settings; None otherwise."""
        if info is None:
            return ConfigurationError(f"topic {self.positions_topic} does not exist", "create it: cqrs init")
        for error in diskless_errors([(self.positions_topic, info)]):
            return error
        policy = info.configs.get("cleanup.policy", "delete")
        if policy == "compact":
            return None
        return ConfigurationError(
            f"topic {self.positions_topic} has cleanup.policy={policy}, needs compact: positions would be deleted",
            "set it: kafka-configs.sh --bootstrap-server HOST:PORT --alter"
            f" --topic {self.positions_topic} --add-config cleanup.policy=compact",
        )


class ProcessTopicAccess(NamedTuple):
    """The topics that a process manager reads and writes."""

    topics: ProcessTopics
    events_topics: tuple[str, ...]  # the events topics that it reads
    output_topics: tuple[str, ...]  # the topics that it writes to: commands topics, or a public topic

    @property
    def public_topics(self) -> list[str]:
        """The public topic of a publication; empty for other process managers. The name of a public topic never ends
        with `.commands`.
        """
        return [topic for topic in self.output_topics if not topic.endswith(".commands")]

    def required_acls(self) -> list[RequiredAcl]:
        """Return the ACLs that a run of the process manager needs."""
        return process_acls(self.topics, self.events_topics, self.output_topics)


def public_configs(brokers: int) -> dict[str, str]:
    """Return the configuration of a new public topic. The broker's defaults determine its retention."""
    return {"min.insync.replicas": min_insync_replicas(brokers)}


def process_acls(
    topics: ProcessTopics, events_topics: Iterable[str], output_topics: Iterable[str]
) -> list[RequiredAcl]:
    """Return the ACLs that a process manager needs. It also reads its output topics, to resolve an in-doubt
    transaction.

    A lineage topic exists only after a repartitioning, but always needs an ACL: without it, a user cannot find out
    whether the topic exists.
    """
    read_topics = [
        name for topic in events_topics for name in (topic, f"{topic.removesuffix('.events')}.lineage")
    ]
    return [
        *(
            RequiredAcl(operation, "topic", topic)
            for topic in read_topics
            for operation in ("Read", "DescribeConfigs")
        ),
        *(
            RequiredAcl(operation, "topic", topic)
            for topic in output_topics
            for operation in ("Read", "Write", "DescribeConfigs")
        ),
        *(
            RequiredAcl(operation, "topic", topics.positions_topic)
            for operation in ("Read", "Write", "DescribeConfigs")
        ),
        RequiredAcl("Read", "group", topics.group),
        RequiredAcl("Write", "transactional-id", topics.transactional_ids, prefixed=True),
    ]


def denied_process_acls_error(missing_acls: Sequence[RequiredAcl]) -> ConfigurationError:
    """Return the error for a user that lacks these ACLs; `missing_acls` is not empty."""
    if len(missing_acls) == 1:
        return missing_acls[0].denied_error()
    acl_list = "; ".join(map(str, missing_acls))
    return ConfigurationError(
        f"not allowed, which a process manager needs: {acl_list}", "docs/processes.md shows how to grant each"
    )
