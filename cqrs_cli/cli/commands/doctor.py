"""`cqrs doctor`: finds what is missing, and says what to do about it."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.render.doctor import doctor_document, doctor_text
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.topics.acls import Role

if TYPE_CHECKING:
    from cqrs_cli.doctor.check import Check
    from cqrs_cli.doctor.settings import SettingRow
    from cqrs_cli.kafka.topics.process_topics import ProcessUse
    from cqrs_cli.settings.settings import Settings
    from cqrs_cli.state.checkpoint.manifest import Manifest


#: The checks without which no events can be read.
_NEEDED_FOR_EVENTS = {"settings", "aggregates", "broker", "data path", "acls"}


@command(
    app, examples=["cqrs doctor", "cqrs doctor -b kafka-1:9092 --command-config client.properties -o json"]
)
def doctor(
    cli: Cli,
    role: Annotated[
        Role | None,
        typer.Option(
            "--for",
            metavar="send|run|read|init",
            help="Judge what only these commands need; default: send and run.",
        ),
    ] = None,
) -> int:
    """Check Java, Python, Spark, limits, the broker, topics, transactions, ACLs and events. Starts and changes nothing.

    The code must be able to read the events: it looks at the oldest and the newest of each partition. Processes are
    checked, too: their code, the topic of their positions, and what they need to be allowed. Of checkpoints it names
    the age and lag of each partition's newest one; a small file is written to their store and removed.

    Where the cluster has an authorizer, a missing permission is a failure, too: one that send or run needs, or with
    --for one that those commands need; read stands for show, tail, trace, replay, export, verify, status, top and
    send --dry-run.

    Ends with 0 when nothing failed, else with the exit code of the first failure: 4 for Java or the broker, 3 for
    settings, topics or folders, 5 for events.
    """
    from cqrs_cli.doctor.check import exit_code, fail

    settings: Settings | None = None
    with cli.working("looking around"):
        try:
            settings = cli.settings
        except CqrsError as error:
            checks = [*_machine(), fail("settings", error)]
        else:
            checks = [*_machine(), *_project(settings), *_cluster(cli, settings, role)]
            failed = {check.name for check in checks if check.status == "fail"}
            if role != "send" and not failed & _NEEDED_FOR_EVENTS:
                checks += _events(cli, settings)
            if role in (None, "run") and settings.checkpoints is not None:
                checks += _checkpoints(cli, settings, settings.checkpoints, not failed & _NEEDED_FOR_EVENTS)
    held = _settings(settings)
    cli.result(doctor_document(checks, held), partial(doctor_text, checks, held))
    return exit_code(checks)


def _machine() -> "Iterator[Check]":
    from cqrs_cli.doctor import machine
    from cqrs_cli.doctor.check import examined

    yield from examined("java", machine.check_java)
    yield from examined("python", machine.check_python)
    yield from examined("spark", machine.check_spark)


def _project(settings: "Settings") -> "Iterator[Check]":
    from cqrs_cli.doctor import machine
    from cqrs_cli.doctor.check import examined
    from cqrs_cli.doctor.payloads import check_payloads

    yield from examined("settings", lambda: machine.check_settings(settings))
    yield from examined("aggregates", lambda: machine.check_aggregates(settings))
    yield from examined("processes", lambda: _processes(settings))
    in_memory = settings.store == "memory"
    yield from examined(
        "state",
        lambda: machine.check_memory(settings) if in_memory else machine.check_state(settings.state_dir),
    )
    yield from examined("payloads", lambda: check_payloads(settings.payloads()))
    yield from examined("limits", lambda: machine.check_limits(settings))
    if not in_memory:  # which holds nothing of older code
        yield from examined("revision", lambda: _revisions(settings))


def _processes(settings: "Settings") -> "Iterator[Check]":
    """Check that the project's processes can be loaded."""
    from cqrs_cli.doctor.check import fail, ok
    from cqrs_cli.processes.load import load_process, process_names

    for name in process_names(settings.root):
        try:
            loaded = load_process(name, settings.root, settings.aggregates)
        except CqrsError as error:
            yield fail("processes", error)
        else:
            yield ok("processes", f"{name}: {len(loaded.events)} kinds of events, at {loaded.place}")


def _uses(settings: "Settings") -> "list[ProcessUse]":
    """The topics of each process whose code can be loaded; the others have their own check."""
    from cqrs_cli.processes.load import load_process, process_names

    found = []
    for name in process_names(settings.root):
        with suppress(CqrsError):
            found.append(load_process(name, settings.root, settings.aggregates).use(settings.topic_prefix))
    return found


def _revisions(settings: "Settings") -> "Iterator[Check]":
    """Check the shards of each aggregate whose code can be loaded; the others have their own check."""
    from cqrs_cli import registry
    from cqrs_cli.doctor.shards import check_revision
    from cqrs_cli.kafka.topics.topics import Topics
    from cqrs_cli.owner.plan import shard_folder

    for name in registry.names(settings.aggregates, settings.root):
        try:
            aggregate = registry.load(name, settings.aggregates, settings.root)
        except CqrsError:
            continue
        yield from check_revision(
            shard_folder(settings.state_dir, Topics(name, settings.topic_prefix)), aggregate
        )


def _cluster(cli: Cli, settings: "Settings", role: Role | None) -> "Iterator[Check]":
    """The cluster's checks, if there is one to ask: the embedded broker is not started."""
    from cqrs_cli.doctor import cluster
    from cqrs_cli.doctor.check import examined

    if settings.bootstrap_server is None:
        found = list(examined("embedded", lambda: cluster.check_embedded(settings.root)))
        yield from found
        if found[0].status != "ok":
            return

    def look() -> "Iterator[Check]":
        topics = [cli.topics(name) for name in cli.aggregate_names()]
        return cluster.check_cluster(
            cli.connection(start=False),
            topics,
            settings.dedup_window,
            (role,) if role else cluster.DEFAULT_ROLES,
            _uses(settings),
        )

    yield from examined("broker", look)


def _has_broker(settings: "Settings") -> bool:
    """True if there is a broker to ask: the embedded one is not started."""
    from cqrs_cli.kafka.embedded.broker import broker_status

    return settings.bootstrap_server is not None or broker_status(settings.root) is not None


def _events(cli: Cli, settings: "Settings") -> "Iterator[Check]":
    """Check that the code reads the events, where there is a broker to ask."""
    from cqrs_cli.doctor.check import examined

    if not _has_broker(settings):
        return
    for name in cli.aggregate_names():
        yield from examined("events", partial(_events_of, cli, name))


def _events_of(cli: Cli, name: str) -> "Iterator[Check]":
    """Check the events of one aggregate; without topics, of which another check has told, there is nothing to read."""
    from cqrs_cli.doctor.events import check_events
    from cqrs_cli.errors import ConfigurationError

    aggregate = cli.aggregate(name)
    with suppress(ConfigurationError):
        yield from check_events(cli.connection(start=False), aggregate, cli.topics(name))


def _checkpoints(cli: Cli, settings: "Settings", uri: str, is_reached: bool) -> "Iterator[Check]":
    """Check the store of the checkpoints and, where it and the broker can be used, the newest of each aggregate."""
    from cqrs_cli.doctor.check import examined
    from cqrs_cli.doctor.checkpoints import check_checkpoint_store

    found = list(examined("checkpoints", lambda: check_checkpoint_store(uri)))
    yield from found
    if found[0].status == "ok" and is_reached and _has_broker(settings):
        for name in cli.aggregate_names():
            yield from examined("checkpoints", partial(_newest_of, cli, settings, uri, name))


def _newest_of(cli: Cli, settings: "Settings", uri: str, name: str) -> "Iterator[Check]":
    """Check the newest checkpoints of one aggregate; of its topics another check has told."""
    from cqrs_cli.doctor.checkpoints import check_newest
    from cqrs_cli.errors import ConfigurationError
    from cqrs_cli.kafka.admin.topics import Admin, check_topics
    from cqrs_cli.kafka.offsets import committed_now
    from cqrs_cli.kafka.partition_log import PartitionLog
    from cqrs_cli.owner.plan import shard_folder, shard_identity
    from cqrs_cli.settings.durations import milliseconds

    connection, topics, aggregate = cli.connection(start=False), cli.topics(name), cli.aggregate(name)
    with suppress(ConfigurationError):
        with Admin(connection) as admin:
            found = check_topics(admin, topics)
        numbers, window = range(found.partitions), milliseconds(settings.dedup_window)
        decided = {
            number: one.offset or 0 for number, one in committed_now(connection, topics, numbers).items()
        }
        identities = [shard_identity(found, number, aggregate, window) for number in numbers]
        folder = shard_folder(settings.state_dir, topics).name

        def has_news(number: int, newest: "Manifest") -> bool:
            log = PartitionLog(connection, topics, number)
            start, end = log.bounds("outcomes")
            return log.first_record("outcomes", max(start, newest.positions.outcomes), end) is not None

        yield from check_newest(name, uri, folder, settings.checkpoint_every, identities, decided, has_news)


def _settings(settings: "Settings | None") -> "list[SettingRow]":
    """The settings in force, none if they cannot be read: a failed check has said why."""
    from cqrs_cli.doctor.settings import setting_rows

    try:
        return setting_rows(settings) if settings else []
    except CqrsError:
        return []
