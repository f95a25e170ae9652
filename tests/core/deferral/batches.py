"""Batches of commands that may be deferred, decided without a broker."""

import json
from typing import Any

from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.deferral.deferrals import DeferralLimits, Deferrals
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from tests.core.deferral.world import TOPIC, WAY
from tests.support.commands import command

TIMESTAMP = 1_000_000


def record(offset: int = 0, type: str = "way.Go", data: Any = None, **attributes: Any) -> Record:
    sent_command = command(type, "a", attributes.pop("id", "x"), data, **attributes)
    return Record(offset, TIMESTAMP, sent_command.key, sent_command.value, [*HEADERS])


def decide(
    *records: Record, table: DeferralTable | None = None, limits: DeferralLimits | None = None
) -> Decisions:
    return decide_batch(WAY, records, context(table or DeferralTable(), limits))


def context(table: DeferralTable, limits: DeferralLimits | None = None) -> BatchContext:
    deferrals = Deferrals(lambda: table, TOPIC, 0, limits or DeferralLimits(), not table.is_empty())
    return BatchContext(0, lambda _: None, lambda *_: None, lambda: 0, clock=TIMESTAMP, deferrals=deferrals)


def verdicts(decisions: Decisions) -> list[dict[str, Any]]:
    return [json.loads(value)["data"] for value, _, _ in decisions.outcomes]


def reasons(decisions: Decisions) -> list[str]:
    return [data.get("reason", data["status"]) for data in verdicts(decisions)]


def deferred_entry(decisions: Decisions) -> Deferral:
    (entry,) = (entry for entry in decisions.deferral_changes.values() if entry is not None)
    return entry
