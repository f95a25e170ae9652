"""The rules for code changes: which changes a run may load, and the objections against other changes."""

from collections.abc import Mapping

from cqrs_cli.core.aggregate.compatibility import Change, Contract, compare_contracts

#: The contracts of a project's aggregates, by name.
Contracts = Mapping[str, Contract]


def objections(previous: Contracts, current: Contracts, in_memory: bool = False) -> list[str]:
    """Return the reasons why a run must not continue with the current code; empty if it may.

    Events in the log must stay readable, and stored states must keep their meaning: a changed `evolve` needs another
    revision, except for states in memory, because each start folds them from the log.
    """
    texts = []
    for name in sorted(previous.keys() & current.keys()):
        texts += [
            f"{name}: {change.description}; {change.remedy}"
            for change in _event_changes(previous[name], current[name])
        ]
        if not in_memory and _has_evolve_changed(previous[name], current[name]):
            code = f"Decider(…, revision={current[name]['revision'] + 1})"
            texts.append(
                f"{name}: evolve changed, but its shards hold states of the old code; raise the revision: {code}"
            )
    return texts


def _event_changes(previous: Contract, current: Contract) -> list[Change]:
    """Return the breaking changes of events. Changes of commands are allowed: the run does not read old commands."""
    without_commands = {**previous, "commands": {}}
    return [
        change
        for change in compare_contracts(without_commands, {**current, "commands": {}})
        if change.level == "red"
    ]


def _has_evolve_changed(previous: Contract, current: Contract) -> bool:
    same_revision = previous["revision"] == current["revision"]
    return bool(same_revision and previous["fold"] != current["fold"])
