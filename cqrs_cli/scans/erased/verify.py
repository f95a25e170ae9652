"""For `cqrs verify --erased`: verify that the data of erased aggregates are gone, in the topics and on this machine."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.payload_reference import payload_folder
from cqrs_cli.deciding.plan import shard_folder
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.acls import denied_acls, required_acls
from cqrs_cli.kafka.topics.checks import missing_topics
from cqrs_cli.kafka.topics.topics import KINDS, Topics
from cqrs_cli.payloads.store import ASIDE
from cqrs_cli.scans.erased.files import FileFinding, FileSearch
from cqrs_cli.scans.erased.findings import NEVER
from cqrs_cli.scans.erased.search_patterns import SearchPatterns
from cqrs_cli.scans.erased.topics import TopicSearch
from cqrs_cli.storage.folder import StorageFolder, open_folder

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """The findings in the topics and in files. `locations`: the folders that were searched.

    `caches`: the number of deleted data keys that are still in an owner's key cache on this machine, by the cache's
    folder. They are no violations, because the owner drops them before it decides.
    """

    topics: TopicSearch
    patterns: SearchPatterns
    locations: list[str]
    findings: list[FileFinding]
    caches: dict[str, int]
    seconds: float

    @property
    def count(self) -> int:
        """The number of violations."""
        return len(self.topics.findings) + len(self.findings) + len(self.endless)

    @property
    def endless(self) -> list[str]:
        """The topics that keep erased values for ever."""
        return sorted({records.topic for records in self.topics.expiring if records.until == NEVER})


def verify_erasure(
    connection: Connection,
    topics: Topics,
    aggregate: Aggregate,
    settings: "Settings",
    paths: Sequence[Path] = (),
    report: Callable[[str], None] = lambda text: None,
) -> ErasureReport:
    """Search for data of erased aggregates in the topics, in the files that cqrs wrote, and in `paths`.

    Raises `ConfigurationError` for missing ACLs, missing topics, or a path that does not exist.
    """
    started = time.monotonic()
    with Admin(connection) as admin:
        if missing_acls := admin.missing_acls(required_acls("read", topics, personal=True)):
            raise denied_acls(missing_acls, "read")
        infos = admin.describe([*map(topics.name, KINDS), topics.keys])
        cluster_id = admin.cluster_id()
    missing = missing_topics(topics, [kind for kind in KINDS if topics.name(kind) in infos])
    if missing is not None:
        raise missing
    topic_search = TopicSearch(connection, topics, aggregate, infos)
    topic_search.run(report)
    shards = shard_folder(settings.state_dir, topics)
    file_search = FileSearch(SearchPatterns(topic_search.texts), topic_search.erased, aggregate.state, shards)
    findings, locations = list[FileFinding](), list[str]()
    if topic_search.erased:
        for path in [*([shards] if shards.is_dir() else []), *paths]:
            report(f"searching {path}")
            locations.append(str(path))
            findings += file_search.search_path(path)
        for folder in _checkpoints(settings, topics, cluster_id, infos[topics.commands].partitions):
            locations.append(folder.uri)
            findings += file_search.search_store(folder)
        for folder in _payloads(connection, topics):
            locations.append(folder.uri)
            findings += [
                finding
                for finding in file_search.search_store(folder)
                if _payload_name(finding) not in topic_search.payload_sums
            ]
    return ErasureReport(
        topic_search,
        file_search.patterns,
        locations,
        findings,
        file_search.caches,
        time.monotonic() - started,
    )


def _checkpoints(
    settings: "Settings", topics: Topics, cluster_id: str, partitions: int
) -> Iterator[StorageFolder]:
    if settings.checkpoint_location is not None:
        store, name = (
            open_folder(settings.checkpoint_location, Path("/")),
            topics.commands.removesuffix(".commands"),
        )
        for number in range(partitions):
            yield store.subfolder(cluster_id, name, str(number))


def _payloads(connection: Connection, topics: Topics) -> Iterator[StorageFolder]:
    if connection.payloads is not None:
        store, name = open_folder(connection.payloads.uri, Path("/")), payload_folder(topics.commands)
        yield store.subfolder(name)
        yield store.subfolder(name, ASIDE)


def _payload_name(finding: FileFinding) -> str:
    """Return the file name of a payload, which is its SHA-256 sum."""
    return finding.location.rpartition("/")[2].partition(" ")[0]
