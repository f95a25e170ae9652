"""`cqrs status`: how far each partition is, and who owns it."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames
from cqrs_cli.cli.render.status import status_document, status_table
from cqrs_cli.errors import ConfigurationError

if TYPE_CHECKING:
    pass


@command(
    app, examples=["cqrs status", "cqrs status bank_account", "cqrs status bank_account --digest -o json"]
)
def status(
    cli: Cli,
    aggregates: AggregateNames = None,
    with_digest: Annotated[
        bool, typer.Option("--digest", help="Sum up the states on this machine, as replay does.")
    ] = False,
) -> None:
    """Show lag, owner, speed and state of every partition.

    The owner is the run that committed last; its speed is the average since its first commit. State is what this
    machine holds of the partition: nothing, where another machine owns it. Aggregates without topics are left out, and
    named as missing in JSON; without any that has them it ends with 3. A client's transaction that is left open hides
    the commands after it: it is named with how to end it. So is a command on which workers die, and one that its owner
    on this machine has been deciding for seconds.
    """
    from cqrs_cli.owner.status import partition_statuses

    names = cli.chosen(aggregates)
    connection, seen = cli.connection(), {}
    missing: dict[str, ConfigurationError] = {}
    for name in names:
        try:
            seen[name] = partition_statuses(connection, cli.topics(name), cli.settings.state_dir, with_digest)
        except ConfigurationError as error:
            if aggregates:
                raise
            missing[name] = error
    if not seen:
        raise next(iter(missing.values()))
    for name, why in missing.items():
        cli.note(f"{name}: {cli.with_flags(str(why))}")
    cli.result(status_document(seen, list(missing), with_digest), partial(status_table, seen, with_digest))
