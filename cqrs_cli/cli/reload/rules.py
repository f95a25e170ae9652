"""The changes of code with which a run may go on, and what stands against the others. Pure."""

from collections.abc import Mapping
from typing import Any

from cqrs_cli.core.aggregate.compatibility import Contract, changes

#: The contracts of a project's aggregates, by name.
Contracts = Mapping[str, Contract]


def objections(before: Contracts, today: Contracts, in_memory: bool = False) -> list[str]:
    """The reasons why the code of today must not go on where the code before decided; none if it may.

    Events on the log must stay readable, and states keep their meaning: a changed `evolve` needs another revision, but
    where states are kept `in_memory`: each start makes them from the log.
    """
    found = []
    for name in sorted(before.keys() & today.keys()):
        found += [f"{name}: {one.what}; {one.do}" for one in _events_alone(before[name], today[name])]
        if not in_memory and _meaning_changed(before[name], today[name]):
            raised = f"Decider(…, revision={today[name]['revision'] + 1})"
            found.append(f"{name}: evolve changed, and its shards hold states of before; raise it: {raised}")
    return found


def _events_alone(before: Contract, today: Contract) -> list[Any]:
    """Changes of commands break no log: while one develops they are the point."""
    same = {**before, "commands": {}}
    return [one for one in changes(same, {**today, "commands": {}}) if one.level == "red"]


def _meaning_changed(before: Contract, today: Contract) -> bool:
    same_revision = before["revision"] == today["revision"]
    return bool(same_revision and before["fold"] != today["fold"])
