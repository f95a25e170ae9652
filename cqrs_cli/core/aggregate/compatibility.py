"""Compares the committed contract of an aggregate with its current code, for `cqrs check`: changes and advice.

Events on the log and commands of clients were made by the committed contract, and are read by the current code.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.json_schema import aggregate_schema
from cqrs_cli.core.aggregate.schema import without_prose
from cqrs_cli.core.aggregate.schema_comparison import Comparison, Difference

Contract = Mapping[str, Any]


class Change(NamedTuple):
    """A change of a contract: `red` breaks existing events or clients, `amber` needs only a commit of the contract."""

    level: Literal["amber", "red"]
    description: str
    remedy: str = ""


#: The advice for breaking differences, by their kind: in events and in commands.
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


def contract_of(aggregate: Aggregate) -> dict[str, Any]:
    """Return the contract of an aggregate, which is committed: JSON Schema without prose, revision and fold digest."""
    schema = without_prose(aggregate_schema(aggregate))
    schema |= {
        "aggregate": aggregate.name,
        "revision": aggregate.decider.revision,
        "fold": aggregate.fold_digest,
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
    return plain


def compare_contracts(before: Contract, now: Contract) -> list[Change]:
    """Return all changes between two contracts of an aggregate, breaking changes first."""
    changes = [*_commands(before, now), *_events(before, now), *_folding(before, now)]
    return sorted(changes, key=lambda change: change.level, reverse=True)


def _commands(before: Contract, now: Contract) -> Iterator[Change]:
    for name in before["commands"].keys() - now["commands"].keys():
        yield Change(
            "red",
            f"command {_class_name(name)} is gone",
            "clients that send it get UNKNOWN_TYPE: keep it until no client sends it",
        )
    yield from _new("command", before["commands"], now["commands"])
    for name in before["commands"].keys() & now["commands"].keys():
        for difference in Comparison(before, now).differences(
            before["commands"][name], now["commands"][name]
        ):
            yield _change(f"command {_class_name(name)}", difference, _COMMAND_REMEDIES)


def _events(before: Contract, now: Contract) -> Iterator[Change]:
    readable = now["events"].keys() | set(now["retired"])
    for name in (before["events"].keys() | set(before["retired"])) - readable:
        reader = "event" if name in before["events"] else "upcaster of event"
        yield Change(
            "red",
            f"{reader} {_class_name(name)} is gone",
            f"keep it, or convert old events: Decider(…, upcasters={{{_class_name(name)!r}: …}})",
        )
    for name in sorted(set(now["retired"]) - set(before["retired"])):
        yield Change("amber", f"event {_class_name(name)} is read by an upcaster")
    yield from _new("event", before["events"], now["events"])
    for name in before["events"].keys() & now["events"].keys():
        for difference in Comparison(before, now).differences(before["events"][name], now["events"][name]):
            change = _change(f"event {_class_name(name)}", difference, _EVENT_REMEDIES)
            if name in now["retired"]:
                change = Change("amber", change.description, "the upcaster must accept the old data, too")
            yield change


def _folding(before: Contract, now: Contract) -> Iterator[Change]:
    if before["revision"] != now["revision"]:
        yield Change("amber", f"the revision is {now['revision']}, it was {before['revision']}")
    elif before["fold"] != now["fold"]:
        yield Change(
            "amber",
            "the code of evolve changed but not the revision",
            f"if its meaning changed, raise the revision: Decider(…, revision={now['revision'] + 1})",
        )
    state_differences = list(Comparison(before, now).differences(before["state"], now["state"]))
    for difference in state_differences:
        if difference.kind == "unmarked":
            yield _change(
                "the state",
                difference,
                {difference.kind: "shards would store it unencrypted: keep the annotation"},
            )
    if state_differences:
        yield Change("amber", "the state changed", "shards are rebuilt from the events")


def _new(noun: str, before: Contract, now: Contract) -> Iterator[Change]:
    for name in now.keys() - before.keys():
        yield Change("amber", f"{noun} {_class_name(name)} is new")


def _change(message: str, difference: Difference, remedies: Mapping[str, str]) -> Change:
    location = f"{message}, field {difference.path}" if difference.path else message
    if difference.kind in remedies:
        return Change("red", f"{location}: {difference.description}", remedies[difference.kind])
    return Change("amber", f"{location}: {difference.description}")


def _class_name(wire_type: str) -> str:
    return wire_type.rpartition(".")[2]
