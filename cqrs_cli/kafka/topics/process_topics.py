"""The single topic of a process manager, and the names of the group and the transactional ids for its positions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.topic_info import TopicInfo, diskless_mistakes
from cqrs_cli.kafka.topics.topics import min_insync_replicas


@dataclass(frozen=True, slots=True)
class ProcessTopics:
    """Names derived from a process manager's name and the topic prefix."""

    process: str
    prefix: str = ""

    @property
    def positions(self) -> str:
        """The compacted topic of positions. Its last record for a partition of events contains the process manager's
        position in this partition, and its owner.
        """
        return f"{self.prefix}process.{self.process}.positions"

    @property
    def group(self) -> str:
        """The consumer group whose committed offsets are a copy of the positions."""
        return f"cqrs.{self.prefix}process.{self.process}"

    @property
    def transactional_ids(self) -> str:
        """The prefix of all transactional ids of the process manager."""
        return f"{self.group}."

    def transactional_id(self, topic: str, partition: int) -> str:
        """Return the transactional id for a partition of events. It is the same in every run, so a new writer
        fences the previous writer.
        """
        return f"{self.transactional_ids}{topic}.{partition}"

    def configs(self, brokers: int) -> dict[str, str]:
        """Return the topic's configuration: small segments, compacted soon, as each new owner reads the whole topic."""
        return {
            "cleanup.policy": "compact",
            "segment.bytes": str(4 * 1024 * 1024),
            "min.cleanable.dirty.ratio": "0.1",
            "min.insync.replicas": min_insync_replicas(brokers),
        }

    def mistake(self, info: TopicInfo | None) -> ConfigurationError | None:
        """Return the error for a topic that is missing or has wrong settings; None otherwise."""
        if info is None:
            return ConfigurationError(f"topic {self.positions} does not exist", "create it: cqrs init")
        for diskless in diskless_mistakes([(self.positions, info)]):
            return diskless
        policy = info.configs.get("cleanup.policy", "delete")
        if policy == "compact":
            return None
        return ConfigurationError(
            f"topic {self.positions} has cleanup.policy={policy}, needs compact: positions would be deleted",
            "set it: kafka-configs.sh --bootstrap-server HOST:PORT --alter"
            f" --topic {self.positions} --add-config cleanup.policy=compact",
        )


class ProcessUse(NamedTuple):
    """A process manager's own topic, the events topics of its subscriptions, and the topics of its commands."""

    topics: ProcessTopics
    sources: tuple[str, ...]
    targets: tuple[str, ...]

    def required_acls(self) -> list[RequiredAcl]:
        """Return the ACLs that a run of the process manager needs."""
        return process_acls(self.topics, self.sources, self.targets)


def process_acls(topics: ProcessTopics, sources: Iterable[str], targets: Iterable[str]) -> list[RequiredAcl]:
    """Return the ACLs that a process manager needs: `sources` are topics of events, `targets` topics of commands.

    A lineage topic exists only after a repartitioning, but without an ACL a user cannot find out whether it exists.
    """
    read_topics = [name for topic in sources for name in (topic, f"{topic.removesuffix('.events')}.lineage")]
    return [
        *(
            RequiredAcl(operation, "topic", topic)
            for topic in read_topics
            for operation in ("Read", "DescribeConfigs")
        ),
        *(
            RequiredAcl(operation, "topic", topic)
            for topic in targets
            for operation in ("Write", "DescribeConfigs")
        ),
        *(
            RequiredAcl(operation, "topic", topics.positions)
            for operation in ("Read", "Write", "DescribeConfigs")
        ),
        RequiredAcl("Read", "group", topics.group),
        RequiredAcl("Write", "transactional-id", topics.transactional_ids, prefixed=True),
    ]


def denied_process_acls(missing_acls: Sequence[RequiredAcl]) -> ConfigurationError:
    """Return the error for a user that lacks these ACLs, at least one."""
    if len(missing_acls) == 1:
        return missing_acls[0].denied()
    acl_list = "; ".join(map(str, missing_acls))
    return ConfigurationError(
        f"not allowed, which a process manager needs: {acl_list}", "docs/processes.md shows how to grant each"
    )
