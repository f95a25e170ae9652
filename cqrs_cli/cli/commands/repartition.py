"""`cqrs repartition`: raise the number of an aggregate's partitions, while it decides."""

from typing import Annotated

from cqrs_cli import failpoints
from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, DryRun, option
from cqrs_cli.cli.render.repartition import repartition_preview, repartition_result


@command(
    app,
    "repartition",
    examples=["cqrs repartition bank_account --partitions 12 --dry-run"],
)
def repartition_aggregate(
    cli: Cli,
    aggregate: AggregateName,
    partitions: Annotated[
        int, option("--partitions N", "New number of partitions, a multiple of the current number.", min=1)
    ],
    is_dry_run: DryRun = False,
) -> None:
    """Raise the number of an aggregate's partitions to a multiple, while a run decides.

    It adds the partitions to the topics. The active run continues with the old number. The next run takes over, and
    splits each old partition. cqrs status shows the progress.

    Repeat the command to complete an interrupted repartitioning, or after you added partitions with Kafka's tools. With
    --dry-run it prints the splits, and the events and deferred commands that move. docs/operations.md explains steps
    and exit codes.
    """
    from cqrs_cli.deciding.repartition import plan_repartitioning, read_partitions, repartition
    from cqrs_cli.scans.repartitioning import repartitioning_work

    cli.check_aggregates(aggregate)
    connection, topics, partitioner = cli.connection(), cli.topics(aggregate), cli.settings.partitioner
    if is_dry_run:
        with cli.show_spinner("reading"):
            current_partitions = read_partitions(connection, topics)
            plan = plan_repartitioning(current_partitions, partitions, partitioner)
            work = repartitioning_work(connection, topics, plan)
        cli.print_result(*repartition_preview(aggregate, plan, work))
        return
    failpoints.arm()
    with cli.show_spinner("reading") as show_text:
        plan = repartition(connection, topics, partitions, partitioner, show_text)
    cli.print_result(*repartition_result(aggregate, plan))
