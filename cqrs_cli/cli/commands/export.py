"""`cqrs export`: an aggregate's events as files for other tools."""

from dataclasses import replace
from typing import Annotated, Literal

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, argument, option
from cqrs_cli.cli.output import job_text
from cqrs_cli.cli.personal import PersonalValues, check_personal
from cqrs_cli.cli.spark_session import SparkOptions, spark_session
from cqrs_cli.cli.target import target_folder
from cqrs_cli.words import counted


@command(
    app,
    examples=[
        "cqrs export bank_account events --out events",
        "cqrs export bank_account events --out events --format jsonl -o json",
    ],
)
def export(
    cli: Cli,
    aggregate: AggregateName,
    kind: Annotated[Literal["events"], argument("TOPIC", "events.")],
    out: Annotated[str, option("--out DIR", "A new folder, or a URL that Spark can write to.")],
    format: Annotated[
        Literal["parquet", "jsonl"], option("--format parquet|jsonl", "Of the files.")
    ] = "parquet",
    personal: PersonalValues = False,
    *,
    spark: SparkOptions,
) -> None:
    """Write all committed events to files, on Spark.

    In Parquet each event has its place, version, time (a timestamp), id, type, subject, causation, correlation,
    traceparent and tracestate, and each type of event a column of its name with its fields, by their types; it is null
    in the rows of other types. Old events are as their upcasters give them. In JSON Lines each is the CloudEvent that
    was written. Personal fields have placeholders, unless --personal is given: what is exported cannot be erased.

    The folder appears complete or not at all. Ends with 5 if there is an event that the code cannot read.
    """
    from cqrs_cli.jobs.export.driver import export_events, plan_export

    properties = spark.apply(cli)
    settings = cli.settings
    target = target_folder(out, format)
    check_personal(personal, cli.aggregate(aggregate), settings.keys())
    plan = plan_export(
        cli.connection(), cli.topics(aggregate), settings.aggregates, settings.root, settings.partitioner
    )
    plan = replace(plan, personal=personal)
    title = f"writing {aggregate}"
    with (
        spark_session(cli, "export", [aggregate], properties) as (context, _),
        cli.working(title) as say,
    ):
        done = export_events(
            context, plan, target, lambda now: say(job_text(title, now, "events", cli.is_live))
        )
    document = {
        "aggregate": aggregate,
        "events": done.events,
        "out": target.folder,
        "format": format,
        "seconds": round(done.seconds, 3),
    }
    cli.result(document, f"{counted(done.events, 'event')} of {aggregate} written to {target.folder}")
