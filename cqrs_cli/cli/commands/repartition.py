"""`cqrs repartition`: an aggregate gets more partitions, while it decides."""

from typing import Annotated

from cqrs_cli import failpoints
from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, DryRun, option
from cqrs_cli.cli.render.repartition import grown_topics, growth_preview


@command(
    app,
    "repartition",
    examples=[
        "cqrs repartition bank_account --partitions 12 --dry-run",
        "cqrs repartition bank_account --partitions 12",
    ],
)
def repartition_aggregate(
    cli: Cli,
    aggregate: AggregateName,
    partitions: Annotated[
        int, option("--partitions N", "Of each topic from now on: a multiple of today's.", min=1)
    ],
    rehearse: DryRun = False,
) -> None:
    """Let an aggregate grow to more partitions. Its topics grow now, while it decides; the next run splits.

    Nobody is stopped: the run at work goes on by the old number, and clients that still send by it are forwarded. The
    next run takes over as in a deploy, and each partition gives its children the keys that are theirs. Until then the
    new partitions wait, with what is sent to them. cqrs status says how far each partition is.

    With --dry-run it says which partitions split into which, how many events and deferred commands move, and how long
    making the shards takes. The same call again completes a growth that ended half-way, and adopts topics that were
    grown by hand. Of two operators the first one's number counts.

    It ends with 2 for fewer partitions, and for a number that is not a multiple; with 3 for the setting partitioner =
    off, while a run of an older version is at work, and if another operator came first.
    """
    from cqrs_cli.deciding.repartition import plan_growth, read_standing, repartition
    from cqrs_cli.scans.growth import growth_work

    cli.check_aggregates(aggregate)
    connection, topics, partitioner = cli.connection(), cli.topics(aggregate), cli.settings.partitioner
    if rehearse:
        with cli.working("reading"):
            standing = read_standing(connection, topics)
            planned = plan_growth(standing, partitions, partitioner)
            work = growth_work(connection, topics, planned.lineage, partitioner)
        cli.result(*growth_preview(aggregate, planned, work))
        return
    failpoints.arm()
    with cli.working(f"{aggregate} grows") as say:
        grown = repartition(connection, topics, partitions, partitioner, say)
    cli.result(*grown_topics(aggregate, grown))
