"""The rules for code changes: which changes a run may load, and the objections against other changes. Pure."""

from collections.abc import Mapping
from typing import Any

from cqrs_cli.core.aggregate.compatibility import Contract, changes

#: The contracts of a project's aggregates, by name.
Contracts = Mapping[str, Contract]


def objections(before: Contracts, today: Contracts, in_memory: bool = False) -> list[str]:
    """Return the reasons why the current code must not continue after the code before; empty if it may.

    Events in the log must stay readable, and states keep their meaning: a changed `evolve` needs another revision.
    States that are kept `in_memory` are an exception, because each start folds them from the log.
    """
    found = []
    for name in sorted(before.keys() & today.keys()):
        found += [f"{name}: {one.what}; {one.do}" for one in _events_alone(before[name], today[name])]
        if not in_memory and _meaning_changed(before[name], today[name]):
            raised = f"Decider(…, revision={today[name]['revision'] + 1})"
            found.append(f"{name}: evolve changed, and its shards hold states of before; raise it: {raised}")
    return found


def _events_alone(before: Contract, today: Contract) -> list[Any]:
    """Return the breaking changes of events. Changes of commands break no log, and are usual in development."""
    same = {**before, "commands": {}}
    return [one for one in changes(same, {**today, "commands": {}}) if one.level == "red"]


def _meaning_changed(before: Contract, today: Contract) -> bool:
    same_revision = before["revision"] == today["revision"]
    return bool(same_revision and before["fold"] != today["fold"])
