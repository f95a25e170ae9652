"""`cqrs init`: create the missing topics of aggregates and process managers, and check the existing topics."""

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

    Without names it also creates the topics of process managers, for positions and public events. The command exits
    with 3 if a topic has wrong settings, or if a named aggregate cannot be loaded.

    --strimzi contacts no broker. It prints Kubernetes manifests for Strimzi: a KafkaTopic for each topic, with settings
    for three brokers, and a KafkaUser for each of the roles run, send and read.
    """
    if partitions is not None:
        cli.flags["partitions"] = partitions
    if strimzi is not None and dry_run:
        raise UsageError("--strimzi prints manifests, and creates nothing", "leave out --dry-run")
    aggregates_by_name = cli.usable_aggregates(aggregates)
    if strimzi is not None:
        _print_manifests(cli, aggregates_by_name, strimzi, bool(aggregates))
        return None
    _warn_of_missing_keyring(cli, aggregates_by_name)
    from cqrs_cli.kafka.admin.positions import ensure_topic
    from cqrs_cli.kafka.admin.topics import Admin, TopicResult

    process_topics = [] if aggregates else _process_topics(cli)
    public_topics = [] if aggregates else _public_topics(cli)
    connection = _connection(cli, dry_run)
    plan = _topic_plan(cli, is_partition_count_required=partitions is not None)
    planned_topics = [
        (cli.topics(name), _topic_plan_for(plan, aggregate)) for name, aggregate in aggregates_by_name.items()
    ]
    if connection is None:
        cli.print_note("the embedded Kafka does not run: its topics are unknown")
        results = _unknown_results(planned_topics, process_topics)
        results += [TopicResult(topic, "unknown", plan.partitions) for topic in public_topics]
    else:
        with cli.show_spinner("checking the topics"):
            results = _ensure_topics(connection, planned_topics, process_topics, dry_run)
            with Admin(connection) as admin:
                results += [ensure_topic(admin, topic, plan.partitions, dry_run) for topic in public_topics]
        _warn_of_lost_keys(cli, connection, [topic_set for topic_set, _ in planned_topics], results)
    document = {"dry_run": dry_run, "topics": [topic._asdict() for topic in results]}
    cli.print_result(document, lambda: table(results, _columns(dry_run)))
    if not aggregates and len(aggregates_by_name) < len(cli.aggregate_names()):
        return ConfigurationError.exit_code
    return None


def _columns(dry_run: bool) -> "Sequence[Column[TopicResult]]":
    dry_run_texts = {"missing": "would be created", "unknown": "would be created if it is missing"}
    return (
        Column("topic", header="topic"),
        Column("partitions", header="partitions"),
        Column(
            "result",
            header="dry run" if dry_run else "result",
            text=lambda result: dry_run_texts.get(result, result),
        ),
    )


def _print_manifests(
    cli: Cli, aggregates_by_name: "Mapping[str, Aggregate]", kafka: str, has_names: bool
) -> None:
    from cqrs_cli.cli.checks.project import process_topic_access
    from cqrs_cli.kafka.topics.strimzi import manifests, manifests_text

    processes = [] if has_names else process_topic_access(cli.settings)
    plan = _topic_plan(cli, is_partition_count_required=False)
    planned_topics = [
        (cli.topics(name), _topic_plan_for(plan, aggregate)) for name, aggregate in aggregates_by_name.items()
    ]
    manifest_documents = manifests(planned_topics, processes, kafka, cli.settings.topic_prefix)
    manifest_list = {"apiVersion": "v1", "kind": "List", "items": manifest_documents}
    cli.print_result(manifest_list, lambda: manifests_text(manifest_documents).rstrip("\n"))


def _connection(cli: Cli, dry_run: bool) -> "Connection | None":
    """Return the connection to the cluster; None in a dry run if the embedded broker is used and does not run."""
    from cqrs_cli.kafka.embedded import broker

    if dry_run and cli.settings.bootstrap_server is None and broker.broker_status(cli.settings.root) is None:
        return None
    return cli.connection(start_broker=not dry_run)


def _topic_plan(cli: Cli, is_partition_count_required: bool) -> "TopicPlan":
    from cqrs_cli.kafka.topics.topics import TopicPlan

    settings = cli.settings
    return TopicPlan(
        partitions=settings.partitions,
        is_partition_count_required=is_partition_count_required,
        commands_retention=settings.commands_retention,
        outcomes_retention=settings.outcomes_retention,
        dedup_window=settings.dedup_window,
    )


def _topic_plan_for(plan: "TopicPlan", aggregate: "Aggregate") -> "TopicPlan":
    """Return the plan for the topics of this aggregate."""
    return replace(plan, personal=aggregate.has_personal_fields)


def _process_topics(cli: Cli) -> "list[ProcessTopics]":
    from cqrs_cli.following.processes.load import process_names
    from cqrs_cli.kafka.topics.process_topics import ProcessTopics

    return [ProcessTopics(name, cli.settings.topic_prefix) for name in process_names(cli.settings.root)]


def _public_topics(cli: Cli) -> list[str]:
    """Return the public topics: those to which process managers write public events."""
    from cqrs_cli.cli.checks.project import process_topic_access

    return [topic for access in process_topic_access(cli.settings) for topic in access.public_topics]


def _ensure_topics(
    connection: "Connection",
    planned_topics: "Iterable[tuple[Topics, TopicPlan]]",
    process_topics: "Iterable[ProcessTopics]",
    dry_run: bool,
) -> "list[TopicResult]":
    from cqrs_cli.kafka.admin.positions import ensure_positions
    from cqrs_cli.kafka.admin.topics import Admin, ensure_topics

    with Admin(connection) as admin:
        results = [
            result
            for topic_set, plan in planned_topics
            for result in ensure_topics(admin, topic_set, plan, dry_run)
        ]
        return results + [ensure_positions(admin, topic_set, dry_run) for topic_set in process_topics]


def _warn_of_missing_keyring(cli: Cli, aggregates_by_name: "Mapping[str, Aggregate]") -> None:
    personal = [name for name, aggregate in aggregates_by_name.items() if aggregate.has_personal_fields]
    if personal and cli.settings.keyring is None:
        names = ", ".join(personal)
        cli.print_note(
            f"{names}: personal fields, and no keyring is set: cqrs run needs one; cqrs keys init", "warning"
        )


def _warn_of_lost_keys(
    cli: Cli, connection: "Connection", topic_sets: "Iterable[Topics]", results: "Iterable[TopicResult]"
) -> None:
    """Warn if a keys topic was missing although there are events: the data keys of these events may be lost."""
    from cqrs_cli.kafka import readers

    results_by_topic = {result.topic: result for result in results}
    for topic_set in topic_sets:
        keys_result, events_result = results_by_topic.get(topic_set.keys), results_by_topic[topic_set.events]
        if keys_result is None or keys_result.result == "kept" or events_result.result != "kept":
            continue
        bounds = readers.bounds(
            connection, topic_set.events, range(events_result.partitions), "read_uncommitted"
        )
        if any(start < end for start, end in bounds.values()):
            cli.print_note(
                f"{topic_set.keys} was missing, and {topic_set.aggregate} has events: encrypted personal fields in them"
                f" cannot be read; restore {topic_set.keys} from a backup before you start a run, unless no field was"
                " personal until now",
                "warning",
            )


def _unknown_results(
    planned_topics: "Iterable[tuple[Topics, TopicPlan]]", process_topics: "Iterable[ProcessTopics]"
) -> "list[TopicResult]":
    from cqrs_cli.kafka.admin.topics import TopicResult

    results = [
        TopicResult(topic_set.name(kind), "unknown", plan.partitions)
        for topic_set, plan in planned_topics
        for kind in plan.kinds
    ]
    return results + [TopicResult(topic_set.positions_topic, "unknown", 1) for topic_set in process_topics]
