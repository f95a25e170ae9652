"""`cqrs doctor`: finds what is missing, and says what to do about it."""

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
from cqrs_cli.cli.checks.places import check_places
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


#: The checks without which no events can be read.
_NEEDED_FOR_EVENTS = {"settings", "aggregates", "broker", "data path", "acls"}


@command(
    app,
    examples=[
        "cqrs doctor",
        "cqrs doctor -b kafka-1:9092 --command-config client.properties -o json",
        "cqrs doctor --gateway https://cqrs.example --token-file /run/secrets/cqrs-token",
    ],
)
def doctor(
    cli: Cli,
    role: Annotated[
        Role | None,
        option(
            "--for send|run|read|init|repartition",
            "Judge what only these commands need; default: send and run.",
        ),
    ] = None,
    gateway: Annotated[
        str | None, option("--gateway URL", "Check the gateway that serves there, too.")
    ] = None,
    token_file: Annotated[
        Path | None, option("--token-file FILE", "The token that this gateway wants.")
    ] = None,
) -> int:
    """Check Java, Python, Spark, limits, broker, clock, topics, transactions, ACLs and events. It changes nothing.

    The code must be able to read the events: it looks at the oldest and the newest of each partition. Processes are
    checked, too: their code, the topic of their positions, and what they need to be allowed. Of partitions it says what
    cqrs status remarks: a command on trial, an event that stopped a process, what is waited for. Of checkpoints it
    names the age and lag of each partition's newest one; a small file is written to their store and removed. Where
    fields are personal, the ring must be there, and have the master keys of all keys, which are read; none is shown.

    Where the cluster has an authorizer, a missing permission is a failure, too: one that send or run needs, or with
    --for one that those commands need; read stands for show, tail, trace, replay, export, verify, status, top and
    send --dry-run.

    With --gateway it asks that gateway (cqrs serve) whether it is alive and has caught up, whether it wants a token and
    takes the one in the file, and whether it serves this project's aggregates, with this version and this code. It does
    not tell of which cluster.

    Ends with 0 when nothing failed, else with the exit code of the first failure: 4 for Java, the broker or the
    gateway, 3 for settings, topics or folders, 5 for events or keys.
    """
    from cqrs_cli.doctor.check import exit_code, fail
    from cqrs_cli.doctor.gateway import parse_gateway

    if token_file is not None and gateway is None:
        raise UsageError("--token-file is for a gateway", "name it: --gateway URL")
    address = None if gateway is None else parse_gateway(gateway)
    settings: Settings | None = None
    with cli.working("looking around"):
        try:
            settings = cli.settings
        except CqrsError as error:
            checks = [*check_this_machine(), fail("settings", error)]
        else:
            runs = role in (None, "run")
            checks = [
                *check_this_machine(),
                *check_project(settings, runs),
                *check_brokers(cli, settings, role),
            ]
            failed = {check.name for check in checks if check.status == "fail"}
            is_reached = not failed & _NEEDED_FOR_EVENTS
            if role != "send" and is_reached:
                checks += check_stored_events(cli, settings)
                checks += check_stored_keys(cli, settings)
                checks += check_places(cli, settings)
            if runs and settings.checkpoints is not None:
                checks += check_stored_checkpoints(cli, settings, settings.checkpoints, is_reached)
            if address is not None:
                checks += check_serving(cli, address, token_file)
    cli.result(*doctor_result(checks, _settings(settings)))
    return exit_code(checks)


def _settings(settings: "Settings | None") -> "list[SettingRow]":
    """The settings in force, none if they cannot be read: a failed check has said why."""
    from cqrs_cli.doctor.settings import setting_rows

    try:
        return setting_rows(settings) if settings else []
    except CqrsError:
        return []
