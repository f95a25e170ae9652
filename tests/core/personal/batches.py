"""Batches of an aggregate with personal fields, and readers of their results."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

from cqrs_cli.codec.ciphertext import kids_of_data
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.deferral.deferrals import Deferrals
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.messages.event import HEADERS, read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encryption import KID_BYTES, SECRET_BYTES, DataKey
from tests.support.commands import command

TIMESTAMP = 1_000_000

ANN = {"name": "Ann Smith", "mail": "ann@home"}
PLAIN_TEXTS = (b"Ann", b"ann@", b"Elm")


def key_generator() -> Callable[[], DataKey]:
    """Return a function that makes new keys, in the same sequence each time."""
    numbers = count(1)
    return lambda: DataKey.of_random(next(numbers).to_bytes(KID_BYTES + SECRET_BYTES, "little"))


def record(offset: int, type: str, data: Any = None, subject: str = "c", **attributes: Any) -> Record:
    sent_command = command(type, subject, f"id-{offset}", data, **attributes)
    return Record(offset, TIMESTAMP, sent_command.key, sent_command.value, [*HEADERS])


def register(offset: int, subject: str = "c", **attributes: Any) -> Record:
    return record(offset, "customer.Register", ANN, subject, **attributes)


def erase(offset: int, subject: str = "c") -> Record:
    return record(offset, "cqrs.Erase", {}, subject)


def context(key: DataKey | None = None, table: DeferralTable | None = None, **options: Any) -> BatchContext:
    entries = DeferralTable() if table is None else table
    deferrals = Deferrals(lambda: entries, "T", 0, active=table is not None)
    return BatchContext(
        0,
        lambda _: None,
        lambda *_: None,
        lambda: TIMESTAMP,
        topic="customer.commands",
        deferrals=deferrals,
        data_key_of=lambda _: key,
        new_data_key=key_generator(),
        **options,
    )


def verdicts(decisions: Decisions) -> list[str]:
    documents = [json.loads(value)["data"] for value, _, _ in decisions.outcomes]
    return [data.get("reason", data["status"]) for data in documents]


def event_key_ids(decisions: Decisions) -> list[str]:
    """Return the key ids of the events: of each encrypted event, and in brackets the key that an erasure deletes."""
    key_ids = []
    for value, _, _ in decisions.events:
        event = read_event(value)
        if event.type == "cqrs.Erased":
            key_ids.append(f"({json.loads(bytes(event.data))['key']})")
        else:
            key_ids += kids_of_data(bytes(event.data))
    return key_ids
