"""`cqrs kafka`: start or stop the project's embedded broker. Other commands start it when they need it."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import argument
from cqrs_cli.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from cqrs_cli.kafka.embedded.broker import Broker


@command(app, examples=["cqrs kafka start", "cqrs kafka -o json"])
def kafka(
    cli: Cli,
    action: Annotated[
        Literal["start", "stop"] | None, argument("start|stop", "Default: report whether the broker runs.")
    ] = None,
) -> int:
    """Start or stop the project's embedded Kafka, or report whether it runs.

    `start` waits until the broker answers; the first start downloads Kafka. `stop` keeps the topics, in .cqrs/kafka.
    Without an action the command prints the broker's address, and exits with 4 if the broker does not run.

    Other commands start the broker when they need it, and log in by themselves. Your other programs log in with
    .cqrs/kafka/client.properties, or with .cqrs/kafka/librdkafka.properties (kcat -F).
    """
    from cqrs_cli.kafka.embedded import broker as embedded

    root = _root(cli)
    if action == "stop":
        _stop(cli, root)
        return 0
    broker = cli.broker() if action == "start" else embedded.broker_status(root)
    cli.print_result(*_broker_result(root, broker))
    return 0 if broker else UnavailableError.exit_code


def _stop(cli: Cli, root: "Path") -> None:
    from cqrs_cli.kafka.embedded import broker as embedded

    with ExitStack() as stack:
        spinner = cli.show_spinner("stopping the embedded Kafka")
        was_running = embedded.stop_broker(root, lambda: stack.enter_context(spinner))
    document, _ = _broker_result(root, None)
    text = "stopped" if was_running else "the embedded Kafka was not running"
    cli.print_result({**document, "stopped": was_running}, text)


def _root(cli: Cli) -> "Path":
    """Return the project's root; raises `UsageError` if the command line names a broker."""
    if cli.flags.get("bootstrap_server") is not None:
        raise UsageError("cqrs kafka is about the embedded broker of this project", "leave out -b")
    return cli.settings.root


def _broker_result(root: "Path", broker: "Broker | None") -> tuple[dict[str, Any], str]:
    """Return the state and the files of the embedded broker, as a document and as text."""
    from cqrs_cli.kafka.embedded import files
    from cqrs_cli.kafka.embedded.release import EMBEDDED

    folder = files.broker_folder(root)
    document = {
        "running": broker is not None,
        "bootstrap_server": broker.bootstrap_server if broker else None,
        "pid": broker.pid if broker else None,
        "version": broker.version if broker else EMBEDDED.version,
        "data": folder / files.DATA_FOLDER,
        "log": folder / files.LOG_FILE,
        "command_config": broker.command_config if broker else None,
    }
    if broker is None:
        return document, "not running; cqrs kafka start starts it"
    text = f"Kafka {broker.version} at {broker.bootstrap_server}, process {broker.pid}, log {broker.log}"
    if broker.command_config is not None:
        text += f", login {broker.command_config}"
    return document, text
