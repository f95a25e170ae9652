"""`cqrs kafka`: the embedded broker of the project, by hand. Other commands start it when they need it."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.app import app, group
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from cqrs_cli.kafka.embedded.broker import Broker

kafka = group("kafka", "The embedded Kafka of this project: start, stop, look.")
app.add_typer(kafka)


@command(kafka, examples=["cqrs kafka start", "cqrs kafka start -o json"])
def start(cli: Cli) -> None:
    """Start the project's broker and wait until it serves. The first time ever it is downloaded: 43 MB."""
    root = _root(cli)
    broker = cli.broker()
    cli.result(_document(root, broker), _text(broker))


@command(kafka, examples=["cqrs kafka stop"])
def stop(cli: Cli) -> None:
    """Stop the project's broker. Its topics stay, in .cqrs/kafka."""
    from cqrs_cli.kafka.embedded import broker as embedded

    root = _root(cli)
    with cli.working("stopping the embedded Kafka"):
        stopped = embedded.stop_broker(root)
    text = "stopped" if stopped else "the embedded Kafka was not running"
    cli.result({**_document(root, None), "stopped": stopped}, text)


@command(kafka, "status", examples=["cqrs kafka status", "cqrs kafka status -o json"])
def kafka_status(cli: Cli) -> int:
    """Whether the project's broker runs, and where; exit 4 when it does not."""
    from cqrs_cli.kafka.embedded import broker as embedded

    root = _root(cli)
    broker = embedded.broker_status(root)
    cli.result(_document(root, broker), _text(broker))
    return 0 if broker else UnavailableError.exit_code


def _root(cli: Cli) -> "Path":
    """The project's root; raises `UsageError` if another broker than the project's own is named."""
    if cli.flags.get("bootstrap_server") is not None:
        raise UsageError("cqrs kafka is about the embedded broker of this project", "leave out -b")
    return cli.settings.root


def _document(root: "Path", broker: "Broker | None") -> dict[str, Any]:
    from cqrs_cli.kafka.embedded import files, jars

    home = files.broker_folder(root)
    return {
        "running": broker is not None,
        "bootstrap_server": broker.bootstrap_server if broker else None,
        "pid": broker.pid if broker else None,
        "version": broker.version if broker else jars.VERSION,
        "data": home / files.DATA_FOLDER,
        "log": home / files.LOG_FILE,
    }


def _text(broker: "Broker | None") -> str:
    if broker is None:
        return "not running; cqrs kafka start starts it"
    return f"Kafka {broker.version} at {broker.bootstrap_server}, process {broker.pid}, log {broker.log}"
