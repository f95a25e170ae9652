"""Writes the demo's project: a folder like a user's project, which the user can inspect after the demo."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.embedded import broker
from cqrs_cli.system import lock

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings

#: The aggregate of the demo's story.
AGGREGATE = "bank_account"

#: The aggregates of the order example, and the process manager between them.
ORDER, PAYMENT, PROCESS = "order", "payment", "checkout"

#: The read model of the orders.
PROJECTION = "recent_orders"

#: Payment timeout of an order in seconds; it replaces the three days in the example's source.
PAYMENT_TIMEOUT = 1

#: Prefix of the demo's topics on a broker that the demo did not start itself.
PREFIX = "demo."

#: Timeout in seconds for a second demo that waits for the first demo in the same folder.
LOCK_TIMEOUT = 180.0

_HEADER = "# Written by each cqrs demo. Inspect this project with cqrs show, cqrs tail and cqrs status.\n"


def demo_settings(user_settings: "Settings", flags: Mapping[str, object]) -> "Settings":
    """Return the demo's settings: the project folder from the user's settings, the broker only from flags.

    The demo ignores a broker that the environment or a file names, because it must not touch topics in use.
    """
    from cqrs_cli.settings.settings import Settings

    root = user_settings.root / ".cqrs" / "demo"
    values: dict[str, object] = {"root": root, "state_dir": root / ".cqrs" / "state"}
    if flags.get("bootstrap_server") or flags.get("command_config"):
        broker_settings = ("bootstrap_server", "command_config", "properties")
        values |= {name: getattr(user_settings, name) for name in broker_settings} | {"topic_prefix": PREFIX}
    if flags.get("topic_prefix"):
        values["topic_prefix"] = user_settings.topic_prefix
    return Settings.model_validate(values)


def write_project(settings: "Settings") -> None:
    """Write the project's code and its cqrs.toml. Raises `ConfigurationError` if the folder is not writable."""
    code = {"aggregates": (AGGREGATE, ORDER, PAYMENT), "processes": (PROCESS,), "projections": (PROJECTION,)}
    try:
        for folder, names in code.items():
            package = settings.root / folder
            package.mkdir(parents=True, exist_ok=True)
            (package / "__init__.py").touch()
            for name in names:
                (package / f"{name}.py").write_text(_source(name), encoding="utf-8")
        (settings.root / "cqrs.toml").write_text(
            _HEADER + "".join(_settings_lines(settings)), encoding="utf-8"
        )
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {settings.root}: {error.strerror or error}",
            "run cqrs demo in a folder that you can write to",
        ) from error


def _source(name: str) -> str:
    """Return the source of an example, with the demo's payment timeout."""
    source = (files("cqrs_cli.demo") / f"{name}.py.txt").read_text(encoding="utf-8")
    return source.replace("timedelta(days=3)", f"timedelta(seconds={PAYMENT_TIMEOUT})")


def _settings_lines(settings: "Settings") -> Iterator[str]:
    """Yield the lines of cqrs.toml that select broker and topics; a JSON string is a valid TOML string."""
    if settings.bootstrap_server:
        yield f"bootstrap_server = {json.dumps(settings.bootstrap_server)}\n"
    if settings.command_config:
        yield f"command_config = {json.dumps(str(settings.command_config))}\n"
    if settings.topic_prefix:
        yield f"topic_prefix = {json.dumps(settings.topic_prefix)}\n"
    if settings.properties:
        yield "[properties]\n"
        yield from (
            f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in settings.properties.items()
        )


@contextmanager
def exclusive_demo(root: Path, report_waiting: Callable[[], None]) -> Iterator[None]:
    """Allow one demo at a time in a folder: a second demo would take the partitions over from the first.

    `report_waiting` is called once if another demo runs in the folder.
    """
    with lock.file_lock(root / "lock", report_waiting, LOCK_TIMEOUT):
        yield


@contextmanager
def broker_stopped_afterwards(settings: "Settings") -> Iterator[None]:
    """Stop the project's embedded broker after the block if it was started within the block, also after an error."""
    if settings.bootstrap_server or broker.broker_status(settings.root) is not None:
        yield
        return
    try:
        yield
    finally:
        broker.stop_broker(settings.root)
