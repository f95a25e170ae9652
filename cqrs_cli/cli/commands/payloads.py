"""`cqrs payloads`: delete payloads without a reference from the payload store."""

from typing import TYPE_CHECKING

from cqrs_cli.cli.app import subgroup
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateNames, DryRun
from cqrs_cli.cli.result import Result
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.payloads.sweep import SweepResult


payloads = subgroup("payloads", "The store of large payloads.")


@command(payloads, examples=["cqrs payloads gc --dry-run"])
def gc(cli: Cli, names: AggregateNames = None, is_dry_run: DryRun = False) -> None:
    """Delete payloads that no record refers to.

    It reads commands, events, dead letters and deferred commands. It moves each unreferenced payload that is older than
    a day to a folder in which readers still find it. A call a day later deletes the payload, or restores it if a new
    record refers to it. Call the command once a day.

    All records that refer to the payload store must be in one cluster.
    """
    from cqrs_cli.client.queries.payloads import referenced_payloads
    from cqrs_cli.core.messages.payload_reference import payload_folder
    from cqrs_cli.payloads.sweep import Sweep

    address = cli.settings.payloads()
    if address is None:
        raise ConfigurationError("no payload_store is set: there are no payloads", "set it in cqrs.toml")
    cli.check_aggregates(*names or ())
    connection = cli.connection()
    for name in dict.fromkeys(names or cli.aggregate_names()):
        topics = cli.topics(name)
        with cli.show_spinner(f"reading the records of {name}"):
            sweep = Sweep(address, payload_folder(topics.events))
            sweep_result = sweep.sweep(
                referenced_payloads(connection, topics, sweep.candidate_digests), is_dry_run
            )
        cli.print_result(*_sweep_result(name, sweep_result))
    if is_dry_run:
        cli.print_note("dry run: nothing was changed")


def _sweep_result(aggregate: str, result: "SweepResult") -> Result:
    payloads_by_action = {
        "put_aside": result.put_aside,
        "brought_back": result.brought_back,
        "deleted": result.deleted,
    }
    sizes = {
        action: {"payloads": len(payloads), "bytes": sum(payload.size for payload in payloads)}
        for action, payloads in payloads_by_action.items()
    }
    parts = [
        f"{size['payloads']:,} {action.replace('_', ' ')} ({size['bytes']:,} bytes)"
        for action, size in sizes.items()
        if size["payloads"]
    ]
    text = f"{aggregate}: {', '.join([counted(result.kept, 'payload') + ' kept', *parts])}"
    return Result({"aggregate": aggregate, "kept": result.kept, **sizes}, text)
