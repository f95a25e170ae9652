"""`cqrs export`: an aggregate's events as files for other tools."""

from contextlib import ExitStack
from typing import Annotated, Literal

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, Conf, Master, spark_properties
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
    kind: Annotated[Literal["events"], typer.Argument(metavar="TOPIC", help="events.")],
    out: Annotated[
        str, typer.Option("--out", metavar="DIR", help="A new folder, or a URL that Spark can write to.")
    ],
    format: Annotated[
        Literal["parquet", "jsonl"], typer.Option("--format", metavar="parquet|jsonl", help="Of the files.")
    ] = "parquet",
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Write all committed events to files, on Spark.

    In Parquet each event has its place, version, time (a timestamp), id, type, subject, causation, correlation,
    traceparent and tracestate, and each type of event a column of its name with its fields, by their types; it is null
    in the rows of other types. Old events are as their upcasters give them. In JSON Lines each is the CloudEvent that
    was written.

    The folder appears complete or not at all. Ends with 5 if there is an event that the code cannot read.
    """
    from cqrs_cli.jobs.engine.session import project_session
    from cqrs_cli.jobs.engine.slots import slots
    from cqrs_cli.jobs.export.driver import export_events, plan_export

    spark = spark_properties(conf or ())
    cli.flags.update(master=master)
    settings = cli.settings
    target = target_folder(out, format)
    cli.aggregate(aggregate)
    plan = plan_export(cli.connection(), cli.topics(aggregate), settings.aggregates, settings.root)
    with ExitStack() as stack:
        say = stack.enter_context(cli.working("starting Spark"))
        context = stack.enter_context(project_session(settings, "export", aggregate, spark))
        slots(context, note=cli.note)  # else a cluster without workers would let the job wait for ever
        done = export_events(context, plan, target, lambda part: say(f"writing {aggregate}: {part:.0%}"))
    document = {
        "aggregate": aggregate,
        "events": done.events,
        "out": target.folder,
        "format": format,
        "seconds": round(done.seconds, 3),
    }
    cli.result(document, f"{counted(done.events, 'event')} of {aggregate} written to {target.folder}")
