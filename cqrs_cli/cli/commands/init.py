"""`cqrs init`: the topics of aggregates and processes, made if they are missing and checked if they are not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, DryRun, option
from cqrs_cli.cli.result import table
from cqrs_cli.column import Column
from cqrs_cli.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from cqrs_cli.core.aggregate.aggregate import Aggregate
    from cqrs_cli.kafka.admin.topics import TopicResult
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.kafka.topics.process_topics import ProcessTopics
    from cqrs_cli.kafka.topics.topics import TopicPlan, Topics


@command(
    app,
    examples=["cqrs init bank_account --partitions 12", "cqrs init --strimzi shop"],
)
def init(
    cli: Cli,
    aggregates: AggregateNames = None,
    partitions: Annotated[int | None, option("N", "Partitions of each new topic. Default: 4.", min=1)] = None,
    dry_run: DryRun = False,
    strimzi: Annotated[
        str | None, option("--strimzi KAFKA", "Print Strimzi manifests for this Kafka resource instead.")
    ] = None,
) -> int | None:
    """Create the topics of aggregates; check existing topics, and leave them unchanged.

    Without names it also creates the topic of each process manager's positions. The command exits with 3 if a topic
    has wrong settings, or if the code of an aggregate cannot be used.

    --strimzi contacts no broker. It prints a KafkaTopic for each topic, with settings for three brokers, and a
    KafkaUser for each of run, send and read.
    """
    if partitions is not None:
        cli.flags["partitions"] = partitions
    if strimzi is not None and dry_run:
        raise UsageError("--strimzi prints manifests, and creates nothing", "leave out --dry-run")
    chosen = cli.usable(aggregates)
    if strimzi is not None:
        _print_manifests(cli, chosen, strimzi, bool(aggregates))
        return None
    processes = [] if aggregates else _processes(cli)
    connection = _connection(cli, dry_run)
    plan = _plan(cli, insist=partitions is not None)
    topics = [(cli.topics(name), _plan_of(plan, one)) for name, one in chosen.items()]
    if connection is None:
        cli.note("the embedded Kafka does not run: what it holds is not known")
        made = _unknown(topics, processes)
    else:
        with cli.working("looking at the topics"):
            made = _ensure(connection, topics, processes, dry_run)
        _warn_of_lost_keys(cli, connection, [each for each, _ in topics], made)
    document = {"dry_run": dry_run, "topics": [topic._asdict() for topic in made]}
    cli.result(document, lambda: table(made, _columns(dry_run)))
    return None if aggregates or len(chosen) == len(cli.aggregate_names()) else ConfigurationError.exit_code


def _columns(dry_run: bool) -> "Sequence[Column[TopicResult]]":
    said = {"missing": "would be created", "unknown": "would be created if it is missing"}
    return (
        Column("topic", header="topic"),
        Column("partitions", header="partitions"),
        Column("result", header="dry run" if dry_run else "result", text=lambda one: said.get(one, one)),
    )


def _print_manifests(cli: Cli, chosen: "Mapping[str, Aggregate]", kafka: str, named: bool) -> None:
    from cqrs_cli.cli.checks.project import process_uses
    from cqrs_cli.kafka.topics.strimzi import manifests, manifests_text

    processes = [] if named else process_uses(cli.settings)
    plan = _plan(cli, insist=False)
    topics = [(cli.topics(name), _plan_of(plan, one)) for name, one in chosen.items()]
    found = manifests(topics, processes, kafka, cli.settings.topic_prefix)
    together = {"apiVersion": "v1", "kind": "List", "items": found}
    cli.result(together, lambda: manifests_text(found).rstrip("\n"))


def _connection(cli: Cli, dry_run: bool) -> "Connection | None":
    """The cluster; None if that is the embedded broker, it is down, and a dry run must not start it."""
    from cqrs_cli.kafka.embedded import broker

    if dry_run and cli.settings.bootstrap_server is None and broker.broker_status(cli.settings.root) is None:
        return None
    return cli.connection(start=not dry_run)


def _plan(cli: Cli, insist: bool) -> "TopicPlan":
    from cqrs_cli.kafka.topics.topics import TopicPlan

    settings = cli.settings
    return TopicPlan(
        partitions=settings.partitions,
        requires_partitions=insist,
        commands_retention=settings.commands_retention,
        outcomes_retention=settings.outcomes_retention,
        dedup_window=settings.dedup_window,
    )


def _plan_of(plan: "TopicPlan", aggregate: "Aggregate") -> "TopicPlan":
    """The plan of one aggregate."""
    return replace(plan, personal=aggregate.has_personal_fields)


def _processes(cli: Cli) -> "list[ProcessTopics]":
    from cqrs_cli.following.processes.load import process_names
    from cqrs_cli.kafka.topics.process_topics import ProcessTopics

    return [ProcessTopics(name, cli.settings.topic_prefix) for name in process_names(cli.settings.root)]


def _ensure(
    connection: "Connection",
    topics: "Iterable[tuple[Topics, TopicPlan]]",
    processes: "Iterable[ProcessTopics]",
    dry_run: bool,
) -> "list[TopicResult]":
    from cqrs_cli.kafka.admin.positions import ensure_positions
    from cqrs_cli.kafka.admin.topics import Admin, ensure_topics

    with Admin(connection) as admin:
        made = [made for each, plan in topics for made in ensure_topics(admin, each, plan, dry_run)]
        return made + [ensure_positions(admin, each, dry_run) for each in processes]


def _warn_of_lost_keys(
    cli: Cli, connection: "Connection", topics: "Iterable[Topics]", made: "Iterable[TopicResult]"
) -> None:
    """Say where the topic of keys is new, and events are there: their keys may have been in one that was lost."""
    from cqrs_cli.kafka import readers

    found = {one.topic: one for one in made}
    for each in topics:
        keys, events = found.get(each.keys), found[each.events]
        if keys is None or keys.result == "kept" or events.result != "kept":
            continue
        ends = readers.bounds(connection, each.events, range(events.partitions), "read_uncommitted")
        if any(start < end for start, end in ends.values()):
            cli.note(
                f"{each.keys} was not there, and {each.aggregate} has events: their personal fields cannot be read if"
                " they were sealed; restore its records from a backup before anything runs, unless no field was marked"
                " before now",
                "warning",
            )


def _unknown(
    topics: "Iterable[tuple[Topics, TopicPlan]]", processes: "Iterable[ProcessTopics]"
) -> "list[TopicResult]":
    from cqrs_cli.kafka.admin.topics import TopicResult

    made = [
        TopicResult(each.name(kind), "unknown", plan.partitions)
        for each, plan in topics
        for kind in plan.kinds
    ]
    return made + [TopicResult(each.positions, "unknown", 1) for each in processes]
