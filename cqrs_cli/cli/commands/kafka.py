"""`cqrs kafka`: the embedded broker of the project, by hand. Other commands start it when they need it."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.app import subgroup
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from cqrs_cli.kafka.embedded.broker import Broker


kafka = subgroup("kafka", "The embedded Kafka of this project: start, stop, look.")


@command(kafka, examples=["cqrs kafka start", "cqrs kafka start -o json"])
def start(cli: Cli) -> None:
    """Start the project's broker and wait until it serves. The first time ever it is downloaded."""
    root = _root(cli)
    broker = cli.broker()
    cli.result(*_broker(root, broker))


@command(kafka, examples=["cqrs kafka stop"])
def stop(cli: Cli) -> None:
    """Stop the project's broker. Its topics stay, in .cqrs/kafka."""
    from cqrs_cli.kafka.embedded import broker as embedded

    root = _root(cli)
    with ExitStack() as shown:
        working = cli.working("stopping the embedded Kafka")
        stopped = embedded.stop_broker(root, lambda: shown.enter_context(working))
    document, _ = _broker(root, None)
    text = "stopped" if stopped else "the embedded Kafka was not running"
    cli.result({**document, "stopped": stopped}, text)


@command(kafka, "status", examples=["cqrs kafka status", "cqrs kafka status -o json"])
def kafka_status(cli: Cli) -> int:
    """Say whether the project's broker runs, and where; exit 4 when it does not."""
    from cqrs_cli.kafka.embedded import broker as embedded

    root = _root(cli)
    broker = embedded.broker_status(root)
    cli.result(*_broker(root, broker))
    return 0 if broker else UnavailableError.exit_code


def _root(cli: Cli) -> "Path":
    """The project's root; raises `UsageError` if another broker than the project's own is named."""
    if cli.flags.get("bootstrap_server") is not None:
        raise UsageError("cqrs kafka is about the embedded broker of this project", "leave out -b")
    return cli.settings.root


def _broker(root: "Path", broker: "Broker | None") -> tuple[dict[str, Any], str]:
    """The state of the embedded broker and its place, as a document and as text."""
    from cqrs_cli.kafka.embedded import files
    from cqrs_cli.kafka.embedded.release import EMBEDDED

    home = files.broker_folder(root)
    document = {
        "running": broker is not None,
        "bootstrap_server": broker.bootstrap_server if broker else None,
        "pid": broker.pid if broker else None,
        "version": broker.version if broker else EMBEDDED.version,
        "data": home / files.DATA_FOLDER,
        "log": home / files.LOG_FILE,
    }
    if broker is None:
        return document, "not running; cqrs kafka start starts it"
    at = f"at {broker.bootstrap_server}, process {broker.pid}, log {broker.log}"
    return document, f"Kafka {broker.version} {at}"
