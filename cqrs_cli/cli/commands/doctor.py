"""`cqrs doctor`: check the machine, the project and the cluster, with a remedy for each failure."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.checks.cluster import (
    check_brokers,
    check_stored_checkpoints,
    check_stored_events,
    check_stored_keys,
)
from cqrs_cli.cli.checks.gateway import check_serving
from cqrs_cli.cli.checks.partitions import check_partitions
from cqrs_cli.cli.checks.project import check_project, check_this_machine
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import option
from cqrs_cli.cli.render.doctor import doctor_result
from cqrs_cli.errors import CqrsError, UsageError
from cqrs_cli.kafka.topics.acls import Role

if TYPE_CHECKING:
    from cqrs_cli.doctor.settings import SettingRow
    from cqrs_cli.settings.settings import Settings


#: The checks that must pass before events can be read.
_NEEDED_FOR_EVENTS = {"settings", "aggregates", "broker", "data path", "acls"}


@command(
    app,
    examples=[
        "cqrs doctor",
        "cqrs doctor --gateway https://cqrs.example --token-file /run/secrets/cqrs-token",
    ],
)
def doctor(
    cli: Cli,
    role: Annotated[
        Role | None,
        option(
            "--for send|run|read|init|repartition",
            "Check the permissions of these commands. Default: send and run.",
        ),
    ] = None,
    gateway: Annotated[str | None, option("--gateway URL", "Check the gateway at this address, too.")] = None,
    token_file: Annotated[Path | None, option("--token-file FILE", "The gateway's token.")] = None,
) -> int:
    """Check Java, Python, Spark, limits, broker, topics, permissions, events, keys and checkpoints.

    It changes nothing, except that it writes a small file to the checkpoint store and deletes it. Each failure is shown
    with its remedy.

    --for selects the permissions to check; read means show, tail, trace, replay, export, verify, status and top. With
    --gateway it checks a running gateway, too.

    The command exits with 0, or with the exit code of the first failure.
    """
    from cqrs_cli.doctor.check import exit_code, fail
    from cqrs_cli.doctor.gateway import parse_gateway

    if token_file is not None and gateway is None:
        raise UsageError("--token-file needs a gateway", "name it: --gateway URL")
    address = None if gateway is None else parse_gateway(gateway)
    settings: Settings | None = None
    with cli.show_spinner("checking"):
        try:
            settings = cli.settings
        except CqrsError as error:
            checks = [*check_this_machine(), fail("settings", error)]
        else:
            includes_run = role in (None, "run")
            checks = [
                *check_this_machine(),
                *check_project(settings, includes_run),
                *check_brokers(cli, settings, role),
            ]
            failed_names = {check.name for check in checks if check.status == "fail"}
            can_read_events = not failed_names & _NEEDED_FOR_EVENTS
            if role != "send" and can_read_events:
                checks += check_stored_events(cli, settings)
                checks += check_stored_keys(cli, settings)
                checks += check_partitions(cli, settings)
            if includes_run and settings.checkpoint_location is not None:
                checks += check_stored_checkpoints(
                    cli, settings, settings.checkpoint_location, can_read_events
                )
            if address is not None:
                checks += check_serving(cli, address, token_file)
    cli.print_result(*doctor_result(checks, _setting_rows(settings)))
    return exit_code(checks)


def _setting_rows(settings: "Settings | None") -> "list[SettingRow]":
    """Return the effective settings; empty if they cannot be read, which a failed check reports."""
    from cqrs_cli.doctor.settings import setting_rows

    try:
        return setting_rows(settings) if settings else []
    except CqrsError:
        return []
