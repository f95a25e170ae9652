"""`cqrs replay`: fold all aggregates of a type from their events."""

from dataclasses import replace
from typing import Annotated, Literal

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, option, time_option
from cqrs_cli.cli.personal_values import PersonalValues, check_personal
from cqrs_cli.cli.positions import read_positions
from cqrs_cli.cli.render.replay import replay_result, replaying_text
from cqrs_cli.cli.spark_session import SparkOptions, spark_session
from cqrs_cli.cli.target import optional_target
from cqrs_cli.errors import UsageError


@command(
    app,
    examples=[
        "cqrs replay bank_account --at 2026-11-21T01:02:03Z",
        "cqrs replay bank_account --out accounts --format json",
    ],
    extras=["spark"],
)
def replay(
    cli: Cli,
    aggregate: AggregateName,
    at: Annotated[
        str | None,
        option(
            "--at TIME|@FILE",
            "Fold up to a time, 2026-11-21T01:02:03Z, 2026-11-21 (UTC), 2h ago, or to the offsets in a file.",
        ),
    ] = None,
    out: Annotated[
        str | None, option("--out DIR", "Write id, version, time and state of each aggregate.")
    ] = None,
    format: Annotated[
        Literal["parquet", "json"] | None,
        option("--format parquet|json", "Format of the files. Default: parquet."),
    ] = None,
    personal: PersonalValues = False,
    *,
    spark: SparkOptions,
) -> None:
    """Fold all events of an aggregate type, on Spark, and print a digest of the states.

    Equal digests mean equal ids, versions and states. --at TIME folds each aggregate up to this time. --at @FILE
    folds each partition up to its offset in FILE, or in a certificate.

    --out writes a row per aggregate: JSON Lines, or Parquet with a column per field of the state. Without --personal,
    personal fields have redacted values. docs/insight.md explains --at.
    """
    from cqrs_cli.jobs.replay.driver import parts_per_partition, plan_replay, replay_events

    properties = spark.apply(cli)
    settings = cli.settings
    positions = read_positions("--at", at, cli.topics(aggregate).events)
    time_text = _parse_moment(at) if positions is None else None
    target = optional_target(out, format)
    loaded_aggregate, topics = cli.aggregate(aggregate), cli.topics(aggregate)
    if personal and target is None:
        raise UsageError("--personal needs --out", "name a folder: --out DIR")
    check_personal(personal, loaded_aggregate, settings.keyring)
    plan = plan_replay(
        cli.connection(),
        topics,
        settings.aggregates,
        settings.root,
        time_text,
        positions,
        settings.partitioner,
    )
    with (
        spark_session(cli, "replay", [aggregate], properties) as (context, tasks),
        cli.show_spinner(f"replaying {aggregate}") as show_text,
    ):
        plan = replace(
            plan, with_personal_values=personal, parts=parts_per_partition(tasks, len(plan.bounds))
        )
        summary = replay_events(
            context,
            plan,
            target,
            lambda progress: show_text(replaying_text(aggregate, progress, cli.is_live)),
        )
    cli.print_result(*replay_result(aggregate, time_text or positions, summary, target))


def _parse_moment(at: str | None) -> str | None:
    """Return the time as RFC 3339 text; None without a time."""
    from cqrs_cli.core.messages.timestamps import rfc3339

    return None if at is None else rfc3339(time_option("--at", at))
