"""Loads process managers by name: each module in the project's folder `processes` defines a `process`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cqrs_cli import registry
from cqrs_cli.codec.record_codec import AS_STORED, RecordCodec
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.process import Process
from cqrs_cli.core.react import subscribed_events
from cqrs_cli.core.subscription_rule import check_subscription
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.processes.compose import CommandComposer
from cqrs_cli.following.processes.composer import Composer
from cqrs_cli.following.processes.plan import OutputTopic
from cqrs_cli.following.processes.publication import Publication, PublicationComposer
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.process_topics import ProcessTopicAccess, ProcessTopics
from cqrs_cli.kafka.topics.topics import Topics

PROCESSES = "processes"

#: The composer of each kind of process manager.
COMPOSERS: dict[type[Process], type[Composer]] = {
    Process: CommandComposer,
    Publication: PublicationComposer,
}

_PROCESS = registry.UserCode(
    "process",
    "process",
    Process,
    "process = cqrs.Process(react)",
    re.compile(r"[A-Za-z0-9_-]{1,150}"),  # part of `process.<name>.positions`
    "a topic's name",
    "letters, digits, _ and -; at most 150",
)


@dataclass(frozen=True)
class LoadedProcess:
    """A loaded process manager: the aggregates of its subscriptions, and the classes of the subscribed events."""

    name: str
    process: Process
    sources: dict[str, Aggregate]  # name → aggregate whose events it subscribes to
    events: frozenset[type[Event]]  # the subscribed events
    output_topics: tuple[str, ...]  # the topics in its code that it writes to, without prefix
    location: str  # file and line of `react`

    def topic_access(self, prefix: str) -> ProcessTopicAccess:
        """Return the topics that the process manager reads and writes. `prefix`: the setting `topic_prefix`."""
        events_topics = tuple(Topics(name, prefix).events for name in sorted(self.sources))
        return ProcessTopicAccess(
            ProcessTopics(self.name, prefix),
            events_topics,
            tuple(prefix + topic for topic in self.output_topics),
        )

    def composer(
        self,
        outputs: Mapping[str, OutputTopic],
        partitioner: Partitioner,
        load: Callable[[str], Aggregate],
        codec: RecordCodec = AS_STORED,
    ) -> Composer:
        """Return the composer of the process manager's records; see `Composer` for the parameters."""
        return COMPOSERS[type(self.process)](self.name, self.process, outputs, partitioner, load, codec)


def process_names(root: Path) -> list[str]:
    """Return the names of the project's process managers, sorted."""
    return registry.names(PROCESSES, root)


def load_process(
    name: str, root: Path, aggregates: str, aggregates_root: Path | None = None
) -> LoadedProcess:
    """Load the process manager called `name` below `root`; `aggregates` is the package of the aggregates.

    Raises `UsageError` for an unknown name, `ConfigurationError` with file and line for unusable code.
    """
    aggregates_folder = aggregates_root or root
    aggregate_names = registry.names(aggregates, aggregates_folder)  # also makes the aggregates importable
    module = registry.user_module(_PROCESS, name, PROCESSES, root)
    process: Process = module.process
    location = registry.location_of(process.react, module, root)
    try:
        event_types = subscribed_events(process)
        sources = registry.event_owners(event_types, aggregate_names, aggregates, aggregates_folder, location)
        check_subscription(event_types, sources.values())
    except TypeError as error:
        raise ConfigurationError(f"{location}: {error}", "correct the process manager's code") from error
    output_topics = COMPOSERS[type(process)].output_topics(process, module, aggregate_names, root)
    return LoadedProcess(
        name, process, sources, frozenset(event_types), tuple(sorted(output_topics)), location
    )
