"""Compares the committed contract of an aggregate, `schemas/<aggregate>.json`, with its current code.

Events in the log and commands of clients have the form of the committed contract, and the current code must read them.
`cqrs check` shows the changes, with advice for each change.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.json_schema import aggregate_schema
from cqrs_cli.core.aggregate.protobuf import FieldNumbers, field_numbers
from cqrs_cli.core.aggregate.schema import without_prose
from cqrs_cli.core.aggregate.schema_comparison import Comparison, Difference

Contract = Mapping[str, Any]


class Change(NamedTuple):
    """A change of a contract: `red` breaks existing events or clients, `amber` needs only a commit of the contract;
    `green` means that a schema registry accepts the contract.
    """

    level: Literal["green", "amber", "red"]
    description: str
    remedy: str = ""


#: The advice for breaking differences, first in events, then in commands. The keys are values of `Difference.kind`.
_EVENT_REMEDIES = {
    "gone": "events on the log have it: keep it, or define a new event and convert this event by an upcaster",
    "required": (
        "events on the log lack it: give it a default, or define a new event and convert this event by an "
        "upcaster"
    ),
    "value": "events on the log have it: keep it, or convert them by an upcaster",
    "type": "events on the log have the old type: define a new event and convert this event by an upcaster",
    "unmarked": "events on the log have it encrypted: keep the annotation",
}
_COMMAND_REMEDIES = {
    "gone": "clients that send it get INVALID_PAYLOAD: keep it, with a default, until no client sends it",
    "required": "clients that do not send it yet get INVALID_PAYLOAD: give it a default",
    "value": "clients that send it get INVALID_PAYLOAD: keep it until no client sends it",
    "type": "clients that send the old type get INVALID_PAYLOAD: add a field instead, or a new command",
    "unmarked": "deferred commands have it encrypted, and outcomes have a fingerprint without it: keep the annotation",
}


def contract_of(aggregate: Aggregate, committed: Contract | None = None) -> dict[str, Any]:
    """Return the contract to commit for an aggregate: its JSON Schema, without prose, its revision, its fold digest,
    and the numbers of its Protobuf fields, which continue the numbers of the committed contract.
    """
    schema = without_prose(aggregate_schema(aggregate))
    schema |= {
        "aggregate": aggregate.name,
        "revision": aggregate.decider.revision,
        "fold": aggregate.fold_digest,
        "protobuf": field_numbers(schema["$defs"], committed_numbers(committed or {})),
    }
    plain_schema: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
    return plain_schema


def committed_numbers(contract: Contract) -> FieldNumbers:
    """Return the numbers of the Protobuf fields in a contract; empty if an older version of cqrs wrote it."""
    numbers: FieldNumbers = contract.get("protobuf", {})
    return numbers


def compare_contracts(before: Contract, current: Contract) -> list[Change]:
    """Return all changes between two contracts of an aggregate, breaking changes first."""
    changes = [
        *_command_changes(before, current),
        *_event_changes(before, current),
        *_folding_changes(before, current),
    ]
    if not changes and committed_numbers(before) != committed_numbers(current):
        changes = [Change("amber", "numbers of Protobuf fields are not committed yet")]
    return sorted(changes, key=lambda change: change.level, reverse=True)


def _command_changes(before: Contract, current: Contract) -> Iterator[Change]:
    for name in before["commands"].keys() - current["commands"].keys():
        yield Change(
            "red",
            f"command {_class_name(name)} is gone",
            "clients that send it get UNKNOWN_TYPE: keep it until no client sends it",
        )
    yield from _additions("command", before["commands"], current["commands"])
    for name in before["commands"].keys() & current["commands"].keys():
        for difference in Comparison(before, current).differences(
            before["commands"][name], current["commands"][name]
        ):
            yield _change_of(f"command {_class_name(name)}", difference, _COMMAND_REMEDIES)


def _event_changes(before: Contract, current: Contract) -> Iterator[Change]:
    readable_names = current["events"].keys() | set(current["retired"])
    for name in (before["events"].keys() | set(before["retired"])) - readable_names:
        noun = "event" if name in before["events"] else "upcaster of event"
        yield Change(
            "red",
            f"{noun} {_class_name(name)} is gone",
            f"keep it, or convert old events: Decider(…, upcasters={{{_class_name(name)!r}: …}})",
        )
    for name in sorted(set(current["retired"]) - set(before["retired"])):
        yield Change("amber", f"event {_class_name(name)} is read by an upcaster")
    yield from _additions("event", before["events"], current["events"])
    for name in before["events"].keys() & current["events"].keys():
        for difference in Comparison(before, current).differences(
            before["events"][name], current["events"][name]
        ):
            change = _change_of(f"event {_class_name(name)}", difference, _EVENT_REMEDIES)
            if name in current["retired"]:
                change = Change("amber", change.description, "the upcaster must accept the old data, too")
            yield change


def _folding_changes(before: Contract, current: Contract) -> Iterator[Change]:
    if before["revision"] != current["revision"]:
        yield Change("amber", f"the revision is {current['revision']}, it was {before['revision']}")
    elif before["fold"] != current["fold"]:
        yield Change(
            "amber",
            "the code of evolve changed but not the revision",
            f"if its meaning changed, raise the revision: Decider(…, revision={current['revision'] + 1})",
        )
    state_differences = list(Comparison(before, current).differences(before["state"], current["state"]))
    for difference in state_differences:
        if difference.kind == "unmarked":
            yield _change_of(
                "the state",
                difference,
                {difference.kind: "shards would store it unencrypted: keep the annotation"},
            )
    if state_differences:
        yield Change("amber", "the state changed", "shards are rebuilt from the events")


def _additions(noun: str, before: Contract, current: Contract) -> Iterator[Change]:
    for name in current.keys() - before.keys():
        yield Change("amber", f"{noun} {_class_name(name)} is new")


def _change_of(subject: str, difference: Difference, remedies: Mapping[str, str]) -> Change:
    """Return the change for a difference; `subject` names its message, such as `event Deposited`."""
    location = f"{subject}, field {difference.path}" if difference.path else subject
    if difference.kind in remedies:
        return Change("red", f"{location}: {difference.description}", remedies[difference.kind])
    return Change("amber", f"{location}: {difference.description}")


def _class_name(wire_type: str) -> str:
    return wire_type.rpartition(".")[2]
