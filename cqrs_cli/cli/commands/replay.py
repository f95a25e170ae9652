"""`cqrs replay`: every aggregate of a type, rebuilt from its events."""

from dataclasses import replace
from typing import Annotated, Literal

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, moment, option
from cqrs_cli.cli.personal import PersonalValues, check_personal
from cqrs_cli.cli.positions import positions_of
from cqrs_cli.cli.render.replay import replayed, replaying_text
from cqrs_cli.cli.spark_session import SparkOptions, spark_session
from cqrs_cli.cli.target import optional_target
from cqrs_cli.errors import UsageError


@command(
    app,
    examples=[
        "cqrs replay bank_account",
        "cqrs replay bank_account --until 2026-11-21T01:02:03Z",
        "cqrs replay bank_account --until @positions.json",
        "cqrs replay bank_account --out accounts --format json",
    ],
)
def replay(
    cli: Cli,
    aggregate: AggregateName,
    until: Annotated[
        str | None,
        option(
            "--until TIME|@FILE",
            "As it was then: 2026-11-21T01:02:03Z, 2026-11-21 (UTC), 2h ago, or at the offsets in a file.",
        ),
    ] = None,
    out: Annotated[str | None, option("--out DIR", "Write id, version, time and state of each.")] = None,
    format: Annotated[
        Literal["parquet", "json"] | None,
        option("--format parquet|json", "Of what --out writes. Default: parquet."),
    ] = None,
    personal: PersonalValues = False,
    check: Annotated[bool, option("--check", "Now verify --state.", hidden=True)] = False,
    *,
    spark: SparkOptions,
) -> None:
    """Rebuild all aggregates of a type from their events, on Spark.

    The digest sums up ids, versions and states; equal digests mean equal aggregates. At a time each aggregate is
    everything up to its last version whose time is not later. A file holds an offset of the events for each partition,
    {"0": 1200, "1": 0}, below which they count, or is a certificate (cqrs certificate make).

    Aggregates that memory has no room for wait on disk (TMPDIR) until the others are done: a task takes half of the
    machine's or container's memory, shared by its cores.

    --out writes one row for each: JSON Lines with the state as an object, or Parquet with a column for each of its
    fields, by its type; one that has no type of a column (a union, say) is a string of JSON. Personal fields have
    placeholders, unless --personal is given: the files cannot be erased. The digest is the same.
    """
    from cqrs_cli.jobs.replay.driver import parts_for, plan_replay, replay_events

    if check:
        raise UsageError(
            "replay has no --check", f"compare with the live shards: cqrs verify {aggregate} --state"
        )
    properties = spark.apply(cli)
    settings = cli.settings
    positions = positions_of("--until", until, cli.topics(aggregate).events)
    then = _moment(until) if positions is None else None
    target = optional_target(out, format)
    loaded, topics = cli.aggregate(aggregate), cli.topics(aggregate)
    if personal and target is None:
        raise UsageError("--personal is of what --out writes", "name a folder: --out DIR")
    check_personal(personal, loaded, settings.keys())
    wanted = plan_replay(
        cli.connection(), topics, settings.aggregates, settings.root, then, positions, settings.partitioner
    )
    with (
        spark_session(cli, "replay", [aggregate], properties) as (context, tasks),
        cli.working(f"replaying {aggregate}") as say,
    ):
        wanted = replace(wanted, personal=personal, parts=parts_for(tasks, len(wanted.bounds)))
        done = replay_events(
            context, wanted, target, lambda now: say(replaying_text(aggregate, now, cli.is_live))
        )
    cli.result(*replayed(aggregate, then or positions, done, target))


def _moment(until: str | None) -> str | None:
    from cqrs_cli.core.messages.timestamps import rfc3339

    return None if until is None else rfc3339(moment("--until", until))
