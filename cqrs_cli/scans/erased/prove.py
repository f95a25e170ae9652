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
from cqrs_cli.scans.erased.left import NEVER
from cqrs_cli.scans.erased.needles import Needles
from cqrs_cli.scans.erased.places import FileFinding, FilesLook
from cqrs_cli.scans.erased.topics import TopicsLook
from cqrs_cli.storage.folder import StorageFolder, open_folder

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class ErasedProof:
    """The findings in the topics and in files. `places`: the folders that were searched.

    `caches`: the number of deleted keys in the owners' caches on this machine, by folder. An owner drops them before it
    decides.
    """

    topics: TopicsLook
    needles: Needles
    places: list[str]
    found: list[FileFinding]
    caches: dict[str, int]
    seconds: float

    @property
    def count(self) -> int:
        """The number of violations."""
        return len(self.topics.found) + len(self.found) + len(self.endless)

    @property
    def endless(self) -> list[str]:
        """The topics that keep erased values for ever."""
        return sorted({one.topic for one in self.topics.waiting if one.until == NEVER})


def prove_erased(
    connection: Connection,
    topics: Topics,
    aggregate: Aggregate,
    settings: "Settings",
    look_in: Sequence[Path] = (),
    note: Callable[[str], None] = lambda text: None,
) -> ErasedProof:
    """Search for data of erased aggregates in the topics, in the files that cqrs wrote, and in the paths `look_in`.

    Raises `ConfigurationError` for missing ACLs, missing topics, or a path that does not exist.
    """
    began = time.monotonic()
    with Admin(connection) as admin:
        if lacking := admin.missing_acls(required_acls("read", topics, personal=True)):
            raise denied_acls(lacking, "read")
        infos = admin.describe([*map(topics.name, KINDS), topics.keys])
        cluster_id = admin.cluster_id()
    missing = missing_topics(topics, [kind for kind in KINDS if topics.name(kind) in infos])
    if missing is not None:
        raise missing
    look = TopicsLook(connection, topics, aggregate, infos)
    look.look(note)
    shards = shard_folder(settings.state_dir, topics)
    files = FilesLook(Needles(look.texts), look.erased, aggregate.state, shards)
    found, places = list[FileFinding](), list[str]()
    if look.erased:
        for path in [*([shards] if shards.is_dir() else []), *look_in]:
            note(f"looking into {path}")
            places.append(str(path))
            found += files.look_in(path)
        for folder in _checkpoints(settings, topics, cluster_id, infos[topics.commands].partitions):
            places.append(folder.uri)
            found += files.look_in_store(folder)
        for folder in _payloads(connection, topics):
            places.append(folder.uri)
            found += [one for one in files.look_in_store(folder) if _sum_of(one) not in look.sums]
    return ErasedProof(look, files.needles, places, found, files.caches, time.monotonic() - began)


def _checkpoints(
    settings: "Settings", topics: Topics, cluster_id: str, partitions: int
) -> Iterator[StorageFolder]:
    if settings.checkpoint_location is not None:
        store, name = (
            open_folder(settings.checkpoint_location, Path("/")),
            topics.commands.removesuffix(".commands"),
        )
        for number in range(partitions):
            yield store.within(cluster_id, name, str(number))


def _payloads(connection: Connection, topics: Topics) -> Iterator[StorageFolder]:
    if connection.payloads is not None:
        store, name = open_folder(connection.payloads.uri, Path("/")), payload_folder(topics.commands)
        yield store.within(name)
        yield store.within(name, ASIDE)


def _sum_of(found: FileFinding) -> str:
    """Return the file name of a payload, which is its SHA-256 sum."""
    return found.place.rpartition("/")[2].partition(" ")[0]
