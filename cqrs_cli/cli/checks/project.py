"""The doctor's checks of this machine and of the project on it."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from cqrs_cli.errors import CqrsError

if TYPE_CHECKING:
    from cqrs_cli.core.aggregate.aggregate import Aggregate
    from cqrs_cli.doctor.check import Check
    from cqrs_cli.kafka.topics.process_topics import ProcessTopicAccess
    from cqrs_cli.settings.settings import Settings


def check_this_machine() -> "Iterator[Check]":
    """Check Java, Python, Spark and the class data archives."""
    from cqrs_cli.doctor import machine
    from cqrs_cli.doctor.check import run_check
    from cqrs_cli.extras import missing_modules

    java = [*run_check("java", lambda: machine.check_java(is_needed=not missing_modules("spark")))]
    yield from java
    yield from run_check("python", machine.check_python)
    yield from run_check("spark", machine.check_spark)
    if all(check.status == "ok" for check in java):
        yield from run_check("archives", _check_archives)


def _check_archives() -> "Iterator[Check]":
    """Report the JVMs that have a class data archive. Without an archive a JVM only starts more slowly."""
    from cqrs_cli.doctor.check import ok
    from cqrs_cli.extras import missing_modules
    from cqrs_cli.jobs.engine.spark_archive import spark_archive
    from cqrs_cli.kafka.embedded.jars import cache_folder
    from cqrs_cli.kafka.embedded.process import broker_archive
    from cqrs_cli.system.java import find_java

    java = find_java()
    archives = {"the embedded Kafka": broker_archive(java, cache_folder())}
    if not missing_modules("spark"):
        archives = {"Spark": spark_archive(java), **archives}
    for program, archive in archives.items():
        if archive_file := archive.find():
            yield ok("archives", f"{program} starts from {archive_file}")
        else:
            yield ok(
                "archives",
                f"{program} has no class data archive; cqrs warm creates one, so that it starts sooner",
            )


def check_project(settings: "Settings", includes_run: bool = True) -> "Iterator[Check]":
    """Yield the checks of the project. `includes_run`: check the requirements of `cqrs run`, too."""
    from cqrs_cli.doctor import machine
    from cqrs_cli.doctor.check import run_check
    from cqrs_cli.doctor.gateway import check_gateway_extra
    from cqrs_cli.doctor.keys import check_keyring
    from cqrs_cli.doctor.payloads import check_payloads
    from cqrs_cli.extras import missing_modules

    yield from run_check("settings", lambda: machine.check_settings(settings))
    yield from run_check("aggregates", lambda: machine.check_aggregates(settings))
    yield from run_check("processes", lambda: _check_processes(settings))
    uses_shards = settings.store == "lmdb" and not missing_modules("spark")
    if uses_shards:
        yield from run_check("state", lambda: machine.check_state(settings.state_dir))
    elif settings.store == "memory":
        yield from run_check("state", lambda: machine.check_memory(settings))
    yield from run_check("payloads", lambda: check_payloads(settings.payloads()))
    yield from run_check(
        "keys", lambda: check_keyring(settings.keys(), personal_aggregates(settings), includes_run)
    )
    yield from run_check("gateway", check_gateway_extra)
    yield from run_check("limits", lambda: machine.check_limits(settings))
    if uses_shards:  # the in-memory store holds no state from older code
        yield from run_check("revision", lambda: _check_revisions(settings))


def _check_processes(settings: "Settings") -> "Iterator[Check]":
    """Check that the project's process managers can be loaded."""
    from cqrs_cli.doctor.check import fail, ok
    from cqrs_cli.following.processes.load import load_process, process_names

    for name in process_names(settings.root):
        try:
            loaded_process = load_process(name, settings.root, settings.aggregates)
        except CqrsError as error:
            yield fail("processes", error)
        else:
            yield ok(
                "processes", f"{name}: {len(loaded_process.events)} event types, at {loaded_process.location}"
            )


def process_topic_access(settings: "Settings") -> "list[ProcessTopicAccess]":
    """Return the topics of each process manager whose code can be loaded; another check reports code that cannot."""
    from cqrs_cli.following.processes.load import load_process, process_names

    access = []
    for name in process_names(settings.root):
        with suppress(CqrsError):
            loaded_process = load_process(name, settings.root, settings.aggregates)
            access.append(loaded_process.topic_access(settings.topic_prefix))
    return access


def _loadable_aggregates(settings: "Settings") -> "Iterator[Aggregate]":
    """Yield each aggregate whose code can be loaded; another check reports code that cannot."""
    from cqrs_cli import registry

    for name in registry.names(settings.aggregates, settings.root):
        with suppress(CqrsError):
            yield registry.load(name, settings.aggregates, settings.root)


def personal_aggregates(settings: "Settings") -> list[str]:
    """Return the names of the aggregates with personal fields."""
    return [aggregate.name for aggregate in _loadable_aggregates(settings) if aggregate.has_personal_fields]


def _check_revisions(settings: "Settings") -> "Iterator[Check]":
    """Check for shards whose states were folded by other code with the same revision."""
    from cqrs_cli.deciding.plan import shards_folder_of
    from cqrs_cli.doctor.shards import check_revision
    from cqrs_cli.kafka.topics.topics import Topics

    for aggregate in _loadable_aggregates(settings):
        topics = Topics(aggregate.name, settings.topic_prefix)
        yield from check_revision(shards_folder_of(settings.state_dir, topics), aggregate)
