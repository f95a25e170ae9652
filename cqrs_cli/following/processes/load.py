"""Loads process managers by name: each module in the project's folder `processes` defines a `process`."""

import ast
import difflib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from cqrs_cli import registry
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.process import Process
from cqrs_cli.core.react import subscribed_events
from cqrs_cli.core.subscription_rule import check_subscription
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.topics.process_topics import ProcessTopics, ProcessUse
from cqrs_cli.kafka.topics.topics import Topics

PROCESSES = "processes"

_PROCESS = registry.UserCode(
    "process",
    "process",
    Process,
    "process = cqrs.Process(react)",
    re.compile(r"[A-Za-z0-9_-]{1,150}"),  # part of `process.<name>.positions`
    "a topic's name",
    "letters, digits, _ and -; at most 150",
)


@dataclass(frozen=True)
class LoadedProcess:
    """A loaded process manager: the aggregates of its subscriptions, and the classes of the subscribed events."""

    name: str
    process: Process
    sources: dict[str, Aggregate]
    events: frozenset[type[Event]]
    command_targets: tuple[str, ...]  # aggregates in `Send("…")` literals of its code
    location: str  # file and line of `react`

    def use(self, prefix: str) -> ProcessUse:
        """Return the topics that it uses, with this prefix."""
        sources = tuple(Topics(name, prefix).events for name in sorted(self.sources))
        return ProcessUse(
            ProcessTopics(self.name, prefix),
            sources,
            tuple(Topics(name, prefix).commands for name in self.command_targets),
        )


def process_names(root: Path) -> list[str]:
    """Return the names of the project's process managers, sorted."""
    return registry.names(PROCESSES, root)


def load_process(
    name: str, root: Path, aggregates: str, aggregates_root: Path | None = None
) -> LoadedProcess:
    """Load the process manager called `name` below `root`; `aggregates` is the package of the aggregates.

    Raises `UsageError` for an unknown name, `ConfigurationError` with file and line for unusable code.
    """
    aggregates_folder = aggregates_root or root
    aggregate_names = registry.names(aggregates, aggregates_folder)  # also makes the aggregates importable
    module = registry.user_module(_PROCESS, name, PROCESSES, root)
    process: Process = module.process
    location = registry.location_of(process.react, module, root)
    try:
        event_types = subscribed_events(process)
        sources = registry.event_owners(event_types, aggregate_names, aggregates, aggregates_folder, location)
        check_subscription(event_types, sources.values())
    except TypeError as error:
        raise ConfigurationError(f"{location}: {error}", "correct the process manager's code") from error
    command_targets = tuple(sorted(_named_aggregates(module, aggregate_names, root)))
    return LoadedProcess(name, process, sources, frozenset(event_types), command_targets, location)


def _named_aggregates(module: ModuleType, aggregate_names: list[str], root: Path) -> set[str]:
    """Return the aggregates in `Send("…")` literals of the code; raises `ConfigurationError` for an unknown name."""
    command_targets = set()
    for name, line in _send_literals(module):
        if name not in aggregate_names:
            matches = difflib.get_close_matches(name, aggregate_names, 1)
            raise ConfigurationError(
                f"{registry.relative_path(module.__file__, root)}:{line}: there is no aggregate {name!r}",
                f"{f'did you mean {matches[0]}? ' if matches else ''}known: {', '.join(aggregate_names) or 'none'}",
            )
        command_targets.add(name)
    return command_targets


def _send_literals(module: ModuleType) -> Iterator[tuple[str, int]]:
    """Yield the first argument of each `Send(…)` in a module if it is a literal, with its line."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.Call):
            continue
        if getattr(node.func, "attr", getattr(node.func, "id", None)) != "Send":
            continue
        arguments = [
            *node.args[:1],
            *(keyword.value for keyword in node.keywords if keyword.arg == "aggregate"),
        ]
        for argument in arguments[:1]:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value, argument.lineno
