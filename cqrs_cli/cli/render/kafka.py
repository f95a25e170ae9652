"""The embedded broker: as JSON, and for people."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cqrs_cli.kafka.embedded.broker import Broker


def broker_document(root: "Path", broker: "Broker | None") -> dict[str, Any]:
    from cqrs_cli.kafka.embedded import files
    from cqrs_cli.kafka.embedded.release import EMBEDDED

    home = files.broker_folder(root)
    return {
        "running": broker is not None,
        "bootstrap_server": broker.bootstrap_server if broker else None,
        "pid": broker.pid if broker else None,
        "version": broker.version if broker else EMBEDDED.version,
        "data": home / files.DATA_FOLDER,
        "log": home / files.LOG_FILE,
    }


def broker_text(broker: "Broker | None") -> str:
    if broker is None:
        return "not running; cqrs kafka start starts it"
    return f"Kafka {broker.version} at {broker.bootstrap_server}, process {broker.pid}, log {broker.log}"
