"""Verifies that topics and files have no data of erased aggregates, for `cqrs verify --erased`."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.payload_reference import payload_folder
from cqrs_cli.deciding.plan import shards_folder_of
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.acls import denied_acls_error, required_acls
from cqrs_cli.kafka.topics.checks import missing_topics_error
from cqrs_cli.kafka.topics.topics import KINDS, Topics
from cqrs_cli.payloads.store import UNUSED_SUBFOLDER
from cqrs_cli.scans.erased.files import FileFinding, FileSearch
from cqrs_cli.scans.erased.findings import NEVER
from cqrs_cli.scans.erased.search_patterns import SearchPatterns
from cqrs_cli.scans.erased.topics import TopicSearch
from cqrs_cli.storage.folder import StorageFolder, open_folder

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """The findings in the topics and in files."""

    topic_search: TopicSearch
    patterns: SearchPatterns
    locations: list[str]  # folders and stores that were searched
    file_findings: list[FileFinding]
    deleted_key_counts: dict[str, int]  # folder of an owner's key cache → number of deleted keys in it
    seconds: float

    @property
    def violation_count(self) -> int:
        """The number of violations."""
        return len(self.topic_search.findings) + len(self.file_findings) + len(self.permanent_topics)

    @property
    def permanent_topics(self) -> list[str]:
        """The topics that keep erased values for ever. Each counts as a violation."""
        return sorted(
            {
                records.topic
                for records in self.topic_search.remaining_records
                if records.deletion_deadline == NEVER
            }
        )


def verify_erasure(
    connection: Connection,
    topics: Topics,
    aggregate: Aggregate,
    settings: "Settings",
    paths: Sequence[Path] = (),
    report: Callable[[str], None] = lambda text: None,
) -> ErasureReport:
    """Search for data of erased aggregates in the topics, in shards, checkpoints and payloads, and in `paths`.

    Raises `ConfigurationError` for missing ACLs, missing topics, or a path that does not exist.
    """
    started = time.monotonic()
    with Admin(connection) as admin:
        if missing_acls := admin.missing_acls(required_acls("read", topics, personal=True)):
            raise denied_acls_error(missing_acls, "read")
        topic_infos = admin.describe([*map(topics.name, KINDS), topics.keys])
        cluster_id = admin.cluster_id()
    topics_error = missing_topics_error(topics, [kind for kind in KINDS if topics.name(kind) in topic_infos])
    if topics_error is not None:
        raise topics_error
    topic_search = TopicSearch(connection, topics, aggregate, topic_infos)
    topic_search.run(report)
    shards_folder = shards_folder_of(settings.state_dir, topics)
    file_search = FileSearch(
        SearchPatterns(topic_search.texts), topic_search.erased, aggregate.state, shards_folder
    )
    file_findings, locations = list[FileFinding](), list[str]()
    if topic_search.erased:
        for path in [*([shards_folder] if shards_folder.is_dir() else []), *paths]:
            report(f"searching {path}")
            locations.append(str(path))
            file_findings += file_search.search_path(path)
        for folder in _checkpoint_folders(
            settings, topics, cluster_id, topic_infos[topics.commands].partitions
        ):
            locations.append(folder.uri)
            file_findings += file_search.search_store(folder)
        for folder in _payload_folders(connection, topics):
            locations.append(folder.uri)
            file_findings += [
                finding
                for finding in file_search.search_store(folder)
                if _payload_sha256(finding) not in topic_search.payload_sums
            ]
    return ErasureReport(
        topic_search,
        file_search.patterns,
        locations,
        file_findings,
        file_search.deleted_key_counts,
        time.monotonic() - started,
    )


def _checkpoint_folders(
    settings: "Settings", topics: Topics, cluster_id: str, partition_count: int
) -> Iterator[StorageFolder]:
    if settings.checkpoint_location is not None:
        store, name = (
            open_folder(settings.checkpoint_location, Path("/")),
            topics.commands.removesuffix(".commands"),
        )
        for number in range(partition_count):
            yield store.subfolder(cluster_id, name, str(number))


def _payload_folders(connection: Connection, topics: Topics) -> Iterator[StorageFolder]:
    if connection.payloads is not None:
        store, name = open_folder(connection.payloads.uri, Path("/")), payload_folder(topics.commands)
        yield store.subfolder(name)
        yield store.subfolder(name, UNUSED_SUBFOLDER)


def _payload_sha256(finding: FileFinding) -> str:
    """Return the file name of a payload, which is its SHA-256 sum. `finding.location` is `FOLDER/NAME byte 17`."""
    return finding.location.rpartition("/")[2].partition(" ")[0]
