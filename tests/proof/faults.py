"""Every single fault that a log may have. Each function makes one fault in a log of a history, at a record's index."""

import json

from cqrs_cli.core.messages.record import Record
from tests.proof.history import History, append_record, swap_records, with_value
from tests.support.foreign_records import changed_record


def drop(history: History, log: list[Record], index: int) -> None:
    del log[index]


def repeat_at_end(history: History, log: list[Record], index: int) -> None:
    append_record(log, log[index])


def repeat_in_place(history: History, log: list[Record], index: int) -> None:
    log.insert(index, log[index])


def swap(history: History, log: list[Record], index: int) -> None:
    swap_records(log, index - 1, index)


def forge_version(history: History, log: list[Record], index: int) -> None:
    name = "aggregateversion" if log is history.events else "version"
    members = json.loads(log[index].value or b"")
    data = members if log is history.events else members["data"]
    forged = {name: data[name] + 1}
    log[index] = (
        changed_record(log[index], **forged) if log is history.events else changed_record(log[index], forged)
    )


def forge_count(history: History, log: list[Record], index: int) -> None:
    members = json.loads(log[index].value or b"")
    if log is history.events:
        log[index] = changed_record(log[index], eventcount=members["eventcount"] + 1)
    else:
        log[index] = changed_record(log[index], {"events": members["data"]["events"] + 1})


def garble(history: History, log: list[Record], index: int) -> None:
    log[index] = with_value(log[index], b"?")


def forge_status(history: History, log: list[Record], index: int) -> None:
    status = json.loads(log[index].value or b"")["data"].get("status")
    if status is None:  # an event has no status
        log[index] = changed_record(log[index], id="1/0")
    else:
        log[index] = changed_record(
            log[index], {"status": "duplicate" if status != "duplicate" else "agreed"}
        )


def forge_type(history: History, log: list[Record], index: int) -> None:
    log[index] = changed_record(log[index], type="tally.Forgotten")


def forge_data(history: History, log: list[Record], index: int) -> None:
    log[index] = changed_record(log[index], {"by": "x", "version": "x"})


def clear_value(history: History, log: list[Record], index: int) -> None:
    log[index] = with_value(log[index], None)


FAULTS = [
    drop,
    repeat_at_end,
    repeat_in_place,
    swap,
    forge_version,
    forge_count,
    forge_status,
    forge_type,
    forge_data,
    garble,
    clear_value,
]
