"""Loads the process managers that a command line selects."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cqrs_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from cqrs_cli.cli.context import Cli
    from cqrs_cli.following.processes.load import LoadedProcess
    from cqrs_cli.kafka.connection.connection import Connection


def usable_processes(cli: "Cli", names: Sequence[str] | None) -> "list[LoadedProcess]":
    """Return the process managers with these names; without names, all process managers whose code can be loaded.

    Print a warning for each process manager that is left out.
    """
    from cqrs_cli.following.processes.load import load_process, process_names

    settings = cli.settings
    processes: list[LoadedProcess] = []
    for name in names or process_names(settings.root):
        try:
            processes.append(load_process(name, settings.root, settings.aggregates))
        except ConfigurationError as error:
            if names:
                raise
            cli.print_note(f"left out: {error.message}", "warning")
    return processes


def selected_processes(
    cli: "Cli", connection: "Connection", names: Sequence[str] | None
) -> "list[LoadedProcess]":
    """Return process managers as `usable_processes` does; without names, leave out each that has no topic, with a
    warning.
    """
    from cqrs_cli.kafka.admin.topics import Admin
    from cqrs_cli.kafka.topics.process_topics import ProcessTopics

    processes = usable_processes(cli, list(dict.fromkeys(names)) if names else None)
    if names or not processes:
        return processes
    topics = {
        process.name: ProcessTopics(process.name, cli.settings.topic_prefix).positions_topic
        for process in processes
    }
    with Admin(connection) as admin:
        existing_topics = admin.describe(list(topics.values()))
    for name, topic in topics.items():
        if topic not in existing_topics:
            cli.print_note(
                cli.with_flags(f"left out, as it has no topic: process {name}; create it: cqrs init"),
                "warning",
            )
    return [process for process in processes if topics[process.name] in existing_topics]
