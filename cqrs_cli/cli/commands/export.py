"""`cqrs export`: write an aggregate's events to files for other tools."""

from dataclasses import replace
from typing import Annotated, Literal

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, option
from cqrs_cli.cli.output import job_progress_text
from cqrs_cli.cli.personal_values import PersonalValues, check_personal
from cqrs_cli.cli.spark_session import SparkOptions, spark_session
from cqrs_cli.cli.target import target_folder
from cqrs_cli.formatting import counted


@command(
    app,
    examples=[
        "cqrs export bank_account --out events",
        "cqrs export bank_account --out events --format jsonl",
    ],
    extras=["spark"],
)
def export(
    cli: Cli,
    aggregate: AggregateName,
    out: Annotated[str, option("--out DIR", "A new folder, or a URL that Spark can write to.")],
    format: Annotated[
        Literal["parquet", "jsonl"], option("--format parquet|jsonl", "Format of the files.")
    ] = "parquet",
    personal: PersonalValues = False,
    *,
    spark: SparkOptions,
) -> None:
    """Write all committed events of an aggregate to files, on Spark.

    In Parquet, each event type has a column with its fields; other columns contain offset, version, time and
    attributes. JSON Lines contain the CloudEvents as they were written. Without --personal, personal fields have
    redacted values.

    The folder appears only when it is complete. The command exits with 5 if the code cannot read an event.
    """
    from cqrs_cli.jobs.export.driver import export_events, plan_export

    properties = spark.apply(cli)
    settings = cli.settings
    target = target_folder(out, format)
    check_personal(personal, cli.aggregate(aggregate), settings.keyring)
    plan = plan_export(
        cli.connection(), cli.topics(aggregate), settings.aggregates, settings.root, settings.partitioner
    )
    plan = replace(plan, with_personal_values=personal)
    title = f"writing {aggregate}"
    with (
        spark_session(cli, "export", [aggregate], properties) as (context, _),
        cli.show_spinner(title) as show_text,
    ):
        result = export_events(
            context,
            plan,
            target,
            lambda progress: show_text(job_progress_text(title, progress, "events", cli.is_live)),
        )
    document = {
        "aggregate": aggregate,
        "events": result.events,
        "out": target.folder,
        "format": format,
        "seconds": round(result.seconds, 3),
    }
    cli.print_result(document, f"{counted(result.events, 'event')} of {aggregate} written to {target.folder}")
