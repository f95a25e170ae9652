"""`cqrs rebuild`: fold new shards from the log, while runs use the old shards."""

from typing import Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, StateDir, option
from cqrs_cli.cli.render.rebuild import rebuild_result, rebuilding_text
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.formatting import counted


@command(
    app,
    examples=[
        "cqrs rebuild bank_account",
        "cqrs rebuild bank_account --partitions 12 --state-dir /var/lib/cqrs/prepared",
    ],
    extras=["spark"],
)
def rebuild(
    cli: Cli,
    aggregates: AggregateNames = None,
    state_dir: StateDir = None,
    partitions: Annotated[
        int | None,
        option("--partitions N", "Fold the shards for N partitions, before cqrs repartition.", min=1),
    ] = None,
) -> None:
    """Fold new shards (local states) from the log, while runs use the old shards.

    It uses one process per core, no Spark, and disk space for old and new shards. When all are complete, they replace
    the old shards, which are moved aside. The active run keeps the old shards; the next run uses the new. Rebuild
    before you deploy code that invalidates the shards.

    With --partitions it prepares the shards of one aggregate for cqrs repartition.
    """
    import time

    from cqrs_cli.deciding.prepare import prepare
    from cqrs_cli.deciding.rebuild.rebuild import rebuild_shards
    from cqrs_cli.deciding.repartition import plan_with_future_partitions

    if partitions is not None and len(aggregates or ()) != 1:
        raise UsageError("--partitions needs one aggregate", "name it: cqrs rebuild AGGREGATE --partitions N")
    cli.flags.update(state_dir=state_dir)
    settings = cli.settings
    if settings.store == "memory":
        raise ConfigurationError(
            'store = "memory": there are no shards', "each start of cqrs run folds its states from the log"
        )
    aggregates_by_name = cli.usable_aggregates(aggregates)
    plan = prepare(settings, cli.connection(), aggregates_by_name)
    if partitions is not None:
        (name,) = aggregates_by_name
        plan = plan_with_future_partitions(plan, name, partitions)
    if not settings.master.startswith("local"):
        cli.print_note(f"only the shards in {settings.state_dir} on this machine are rebuilt", "warning")
    started_at = time.monotonic()
    with cli.show_spinner(f"rebuilding {', '.join(aggregates_by_name)}") as show_text:
        results = rebuild_shards(
            plan, lambda progress: show_text(rebuilding_text(progress, cli.is_live)), cli.print_note
        )
    if in_use := sum(result.in_use for result in results.values()):
        cli.print_note(
            f"{counted(in_use, 'shard')} in use: the active run keeps the old shards, the next run uses the new shards"
        )
    cli.print_result(*rebuild_result(results, time.monotonic() - started_at))
