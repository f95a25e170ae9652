"""The plan of a read or write, which Spark sends to the tasks."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from cqrs_cli import registry
from cqrs_cli.client.project_aggregates import project_connection
from cqrs_cli.codec.encrypted_events import PersonalMembers, personal_members
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.settings.settings import Settings, load_settings
from cqrs_cli.spark.columns import wire_type
from cqrs_cli.spark.options import SourceKind, TopicOptions
from cqrs_cli.storage.private import atomic_write


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """A topic to read or write. Picklable; its `repr` contains no secrets."""

    connection: Connection
    topic: str
    kind: SourceKind
    aggregate: str
    type: str | None  # the message type to read or write, as in `TopicOptions`; None: all types
    package: str  # the package of the aggregates
    #: The aggregates' source files (zip). Empty for a read without `type`, which does not need the classes.
    archive: bytes = field(default=b"", repr=False)
    personal_members: PersonalMembers | None = None  # the personal-data annotations of the events

    @property
    def topics(self) -> Topics:
        """The topics of the aggregate."""
        return Topics(self.aggregate, self.topic.removesuffix(f"{self.aggregate}.{self.kind}"))

    def load_aggregate(self) -> Aggregate | None:
        """Load the aggregate on a worker from `archive`; return None if `archive` is empty."""
        return _load_archived(self.aggregate, self.package, self.archive) if self.archive else None


def project_settings(options: TopicOptions) -> Settings:
    """Return the settings of the project in the options."""
    return load_settings(options.flags, options.project)


def requested_aggregate(options: TopicOptions) -> Aggregate:
    """Return the aggregate in the options; raise `UsageError` for an unknown aggregate or message type."""
    settings = project_settings(options)
    aggregate = registry.load(options.aggregate, settings.aggregates, settings.root)
    if options.type is not None:
        wire_type(aggregate, options.kind, options.type)
    return aggregate


def plan_topic(options: TopicOptions, with_code: bool) -> SourcePlan:
    """Return the plan of a read or write. `with_code`: add the aggregates' source files. Raises `UsageError` or
    `ConfigurationError`. Makes no request to Kafka.
    """
    aggregate = requested_aggregate(options)
    settings = project_settings(options)
    return SourcePlan(
        project_connection(settings),
        Topics(options.aggregate, settings.topic_prefix).name(options.kind),
        options.kind,
        options.aggregate,
        options.type,
        settings.aggregates,
        _archive(settings) if with_code else b"",
        personal_members(aggregate) if options.kind == "events" else None,
    )


def _archive(settings: Settings) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return registry.source_archive(
            settings.aggregates, settings.root, Path(folder) / "code.zip"
        ).read_bytes()


@lru_cache(8)
def _load_archived(name: str, package: str, archive: bytes) -> Aggregate:
    """Load an aggregate from an archive. The archive is written to the executor's folder, which Spark deletes later."""
    from pyspark import SparkFiles

    file = Path(SparkFiles.getRootDirectory()) / f"cqrs-{hashlib.sha256(archive).hexdigest()[:16]}.zip"
    if not file.exists():
        with atomic_write(file) as archive_file:
            archive_file.write(archive)
    return registry.load(name, package, file)


@contextmanager
def without_traceback() -> Iterator[None]:
    """Let Spark report a `CqrsError` without a traceback, because its message is complete."""
    from pyspark import SparkFiles

    try:
        yield
    except CqrsError:
        if SparkFiles._is_running_on_worker:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # this process reports the error and exits
        raise
