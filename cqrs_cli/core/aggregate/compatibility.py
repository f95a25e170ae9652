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
    """A change: `red` breaks existing events or clients, `amber` only has to be committed."""

    level: Literal["amber", "red"]
    what: str
    do: str = ""


#: The advice for breaking differences, by their kind: in events and in commands.
_EVENT = {
    "gone": "events on the log have it: keep it, or make a new event and read this one by an upcaster",
    "required": "events on the log lack it: give it a default, or make a new event and read this one by an upcaster",
    "value": "events on the log have it: keep it, or read them by an upcaster",
    "type": "events on the log have the old one: make a new event and read this one by an upcaster",
    "unmarked": "events on the log have it sealed: keep the mark",
}
_COMMAND = {
    "gone": "who sends it gets INVALID_PAYLOAD: keep it, with a default, until nobody does",
    "required": "who does not send it yet gets INVALID_PAYLOAD: give it a default",
    "value": "who sends it gets INVALID_PAYLOAD: keep it until nobody does",
    "type": "who sends the old one gets INVALID_PAYLOAD: add a field instead, or a new command",
    "unmarked": "deferred commands have it sealed, and outcomes a fingerprint without it: keep the mark",
}


def contract(aggregate: Aggregate) -> dict[str, Any]:
    """Return the contract of an aggregate, which is committed: JSON Schema without prose, revision and fold digest."""
    schema = without_prose(aggregate_schema(aggregate))
    schema |= {
        "aggregate": aggregate.name,
        "revision": aggregate.decider.revision,
        "fold": aggregate.fold_digest,
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
    return plain


def changes(before: Contract, today: Contract) -> list[Change]:
    """Return all changes between two contracts of an aggregate, breaking changes first."""
    found = [*_commands(before, today), *_events(before, today), *_folding(before, today)]
    return sorted(found, key=lambda change: change.level, reverse=True)


def _commands(before: Contract, today: Contract) -> Iterator[Change]:
    for name in before["commands"].keys() - today["commands"].keys():
        yield Change(
            "red",
            f"command {_plain(name)} is gone",
            "who sends it gets UNKNOWN_TYPE: keep it until nobody does",
        )
    yield from _new("command", before["commands"], today["commands"])
    for name in before["commands"].keys() & today["commands"].keys():
        for one in Comparison(before, today).of(before["commands"][name], today["commands"][name]):
            yield _change(f"command {_plain(name)}", one, _COMMAND)


def _events(before: Contract, today: Contract) -> Iterator[Change]:
    readable = today["events"].keys() | set(today["retired"])
    for name in (before["events"].keys() | set(before["retired"])) - readable:
        read = "event" if name in before["events"] else "upcaster of event"
        yield Change(
            "red",
            f"{read} {_plain(name)} is gone",
            f"keep it, or read old ones: Decider(…, upcasters={{{_plain(name)!r}: …}})",
        )
    for name in sorted(set(today["retired"]) - set(before["retired"])):
        yield Change("amber", f"event {_plain(name)} is read by an upcaster")
    yield from _new("event", before["events"], today["events"])
    for name in before["events"].keys() & today["events"].keys():
        for one in Comparison(before, today).of(before["events"][name], today["events"][name]):
            change = _change(f"event {_plain(name)}", one, _EVENT)
            if name in today["retired"]:
                change = Change("amber", change.what, "its upcaster gets the old data, too")
            yield change


def _folding(before: Contract, today: Contract) -> Iterator[Change]:
    if before["revision"] != today["revision"]:
        yield Change("amber", f"the revision is {today['revision']}, it was {before['revision']}")
    elif before["fold"] != today["fold"]:
        yield Change(
            "amber",
            "the code of evolve changed but not the revision",
            f"if it means something else now, raise it: Decider(…, revision={today['revision'] + 1})",
        )
    of_state = list(Comparison(before, today).of(before["state"], today["state"]))
    for one in of_state:
        if one.kind == "unmarked":
            yield _change("the state", one, {one.kind: "shards would keep it as it is: keep the mark"})
    if of_state:
        yield Change("amber", "the state changed", "shards are rebuilt from the events")


def _new(word: str, before: Contract, today: Contract) -> Iterator[Change]:
    for name in today.keys() - before.keys():
        yield Change("amber", f"{word} {_plain(name)} is new")


def _change(message: str, one: Difference, breaking: Mapping[str, str]) -> Change:
    where = f"{message}, field {one.path}" if one.path else message
    if one.kind in breaking:
        return Change("red", f"{where}: {one.words}", breaking[one.kind])
    return Change("amber", f"{where}: {one.words}")


def _plain(wire_type: str) -> str:
    return wire_type.rpartition(".")[2]
