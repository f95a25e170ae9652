"""`cqrs rebuild`: the shards of aggregates, made from the log beside those in use."""

from typing import Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, StateDir, option
from cqrs_cli.cli.render.rebuild import rebuilding_text, rebuilt_shards
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.formatting import counted


@command(
    app,
    examples=[
        "cqrs rebuild bank_account",
        "cqrs rebuild bank_account --partitions 12 --state-dir /var/lib/cqrs/grown",
    ],
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
    """Fold new shards from the log, while the old ones serve.

    It uses one process per core, no Spark, and disk for both. When all new shards are complete they replace the old
    ones, which are quarantined. An active run continues with the old shards; the next run starts with the new ones.
    So rebuild with new code that invalidates shards before you start it.

    With --partitions it prepares the shards of one aggregate for cqrs repartition.
    """
    import time

    from cqrs_cli.deciding.prepare import prepare
    from cqrs_cli.deciding.rebuild.rebuild import rebuild_shards
    from cqrs_cli.deciding.repartition import prepared

    if partitions is not None and len(aggregates or ()) != 1:
        raise UsageError("--partitions is of one aggregate", "name it: cqrs rebuild AGGREGATE --partitions N")
    cli.flags.update(state_dir=state_dir)
    settings = cli.settings
    if settings.store == "memory":
        raise ConfigurationError(
            'store = "memory": there are no shards', "each start of cqrs run makes its states from the log"
        )
    chosen = cli.usable(aggregates)
    plan = prepare(settings, cli.connection(), chosen)
    if partitions is not None:
        (name,) = chosen
        plan = prepared(plan, name, partitions)
    if not settings.master.startswith("local"):
        cli.note(f"only the shards in {settings.state_dir} on this machine are rebuilt", "warning")
    began = time.monotonic()
    with cli.working(f"rebuilding {', '.join(chosen)}") as say:
        done = rebuild_shards(plan, lambda now: say(rebuilding_text(now, cli.is_live)), cli.note)
    if held := sum(one.in_use for one in done.values()):
        cli.note(f"{counted(held, 'shard')} in use: the run goes on with the old ones, the next with these")
    cli.result(*rebuilt_shards(done, time.monotonic() - began))
