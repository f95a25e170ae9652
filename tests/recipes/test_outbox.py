"""Recipe 5: Debezium makes a command from a row of an outbox."""

import shutil

import pytest

from cqrs_cli import registry
from cqrs_cli.core.context import BatchContext
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.messages.outcome import Verdict, read_outcome
from cqrs_cli.core.messages.record import Record
from tests.recipes.debezium import route_row
from tests.recipes.page import PAGE
from tests.support import ROOT

(SETTINGS,) = PAGE.blocks("properties")
ROW = {
    "id": "0198f2c4-7c1e",
    "aggregatetype": "bank_account",
    "aggregateid": "a-1",
    "type": "bank_account.Open",
    "payload": '{"owner": "Ad\u00e9"}',
    "specversion": "1.0",
}

#: The record that the router makes of the row, with `id`, which it always adds.
ROUTED_RECORD = Record(
    0,
    1000,
    b"a-1",
    ROW["payload"].encode(),
    [
        ("id", b"0198f2c4-7c1e"),
        ("ce_id", b"0198f2c4-7c1e"),
        ("ce_type", b"bank_account.Open"),
        ("ce_subject", b"a-1"),
        ("ce_specversion", b"1.0"),
        ("ce_source", b"/webshop"),
    ],
)

#: Other settings of the value's converter, and the resulting values.
JSON_CONVERTER = (
    "value.converter=org.apache.kafka.connect.json.JsonConverter\nvalue.converter.schemas.enable="
)
EXPANDED = "transforms.outbox.table.expand.json.payload=true\n"
WITH_SCHEMA = b"""{"schema":{"type":"struct","fields":[{"type":"string","optional":true,"field":"owner"}],\
"optional":true,"name":"payload"},"payload":{"owner":"Ad\xc3\xa9"}}"""
OTHER_CONVERTERS = [
    (f"{JSON_CONVERTER}false\n{EXPANDED}", b'{"owner":"Ad\xc3\xa9"}', "accepted"),
    (f"{JSON_CONVERTER}true\n{EXPANDED}", WITH_SCHEMA, "INVALID_PAYLOAD"),
    (f"{JSON_CONVERTER}false\n", b'"{\\"owner\\": \\"Ad\xc3\xa9\\"}"', "INVALID_PAYLOAD"),
]


def verdict_on(record: Record) -> Verdict:
    """Return the verdict on the record as the first command."""
    context = BatchContext(0, lambda _: None, lambda *_: None, lambda: 2000)
    decisions = decide_batch(registry.load("bank_account", "aggregates", ROOT), [record], context)
    ((value, _, _),) = decisions.outcomes
    return read_outcome(value).data


def test_outbox_rows_become_commands() -> None:
    assert verdict_on(ROUTED_RECORD).status == "accepted"


@pytest.mark.parametrize(("settings", "value", "outcome"), OTHER_CONVERTERS)
def test_other_converters_end_as_described(settings: str, value: bytes, outcome: str) -> None:
    verdict = verdict_on(Record(0, 1000, b"a-1", value, ROUTED_RECORD.headers))
    assert outcome in (verdict.status, verdict.reason)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("mvn"), reason="needs Maven")
def test_debezium_makes_these_records() -> None:
    topic, record = route_row(SETTINGS, ROW)
    assert (topic, record) == ("bank_account.commands", ROUTED_RECORD)
    for settings, value, _ in OTHER_CONVERTERS:
        assert route_row(SETTINGS + settings, ROW)[1].value == value
