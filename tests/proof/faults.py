"""Every single fault that a log may have."""

import json

from cqrs_cli.core.messages.record import Record
from tests.proof.history import History, appended, swapped, with_value
from tests.support.foreign_records import edited


def drop(history: History, log: list[Record], at: int) -> None:
    del log[at]


def double(history: History, log: list[Record], at: int) -> None:
    appended(log, log[at])


def double_beside(history: History, log: list[Record], at: int) -> None:
    log.insert(at, log[at])


def swap(history: History, log: list[Record], at: int) -> None:
    swapped(log, at - 1, at)


def forge_version(history: History, log: list[Record], at: int) -> None:
    name = "aggregateversion" if log is history.events else "version"
    members = json.loads(log[at].value or b"")
    found = members if log is history.events else members["data"]
    forged = {name: found[name] + 1}
    log[at] = edited(log[at], **forged) if log is history.events else edited(log[at], forged)


def forge_count(history: History, log: list[Record], at: int) -> None:
    members = json.loads(log[at].value or b"")
    if log is history.events:
        log[at] = edited(log[at], eventcount=members["eventcount"] + 1)
    else:
        log[at] = edited(log[at], {"events": members["data"]["events"] + 1})


def garble(history: History, log: list[Record], at: int) -> None:
    log[at] = with_value(log[at], b"?")


def forge_status(history: History, log: list[Record], at: int) -> None:
    status = json.loads(log[at].value or b"")["data"].get("status")
    if status is None:  # an event has no status
        log[at] = edited(log[at], id="1/0")
    else:
        log[at] = edited(log[at], {"status": "duplicate" if status != "duplicate" else "agreed"})


def forge_type(history: History, log: list[Record], at: int) -> None:
    log[at] = edited(log[at], type="tally.Forgotten")


def forge_data(history: History, log: list[Record], at: int) -> None:
    log[at] = edited(log[at], {"by": "x", "version": "x"})


def empty(history: History, log: list[Record], at: int) -> None:
    log[at] = with_value(log[at], None)


FAULTS = [
    drop,
    double,
    double_beside,
    swap,
    forge_version,
    forge_count,
    forge_status,
    forge_type,
    forge_data,
    garble,
    empty,
]
