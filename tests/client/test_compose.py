import json
import uuid
from typing import Any

import pytest

import cqrs_cli as cqrs
from cqrs_cli import registry
from cqrs_cli.client.compose import complete_line, compose
from cqrs_cli.client.envelope import Attributes
from cqrs_cli.client.field_values import command_data
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import UsageError
from tests.support import ROOT

BANK_ACCOUNT = registry.load("bank_account", "aggregates", ROOT)
SENSOR = registry.load("sensor", "aggregates", ROOT)
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def command_event(*fields: str, command: str = "Deposit", **attributes: Any) -> Any:
    """Return the CloudEvent of these fields."""
    return json.loads(compose(BANK_ACCOUNT, "acc-42", command, fields, Attributes(**attributes)).value)


def test_commands_are_cloud_events() -> None:
    event = command_event("amount=100")
    assert uuid.UUID(event.pop("id")).version == 7
    assert event == {
        "specversion": "1.0",
        "source": "/cqrs/send",
        "type": "bank_account.Deposit",
        "subject": "acc-42",
        "data": {"amount": 100},
    }


def test_the_owner_reads_what_was_composed() -> None:
    ready = compose(BANK_ACCOUNT, "acc-42", "Deposit", ["amount=1"], Attributes(expected=">=3", expiry=1000))
    envelope = read_command(Record(0, 0, b"acc-42", ready.value, [*HEADERS]))
    assert (envelope.id, envelope.subject, envelope.expected_text()) == (ready.id, "acc-42", ">=3")
    assert envelope.expirytime is not None
    assert envelope.expirytime.timestamp() == 1


@pytest.mark.parametrize("field", ["amount=100", "amount:=100", "amount:= 100 "])
def test_text_is_converted_to_the_field_type(field: str) -> None:
    assert command_event(field)["data"] == {"amount": 100}


def test_a_text_field_keeps_its_text() -> None:
    assert command_event("owner=1=2 :=x", command="Open")["data"] == {"owner": "1=2 :=x"}


def test_message_types_name_commands_too() -> None:
    assert command_event("amount=1", command="bank_account.Deposit")["type"] == "bank_account.Deposit"


def test_options_become_attributes() -> None:
    event = command_event("amount=1", id="x", expected="7", correlation="order-9", traceparent=TRACE)
    assert (event["id"], event["expectedversion"], event["correlationid"]) == ("x", "7", "order-9")
    assert event["traceparent"] == TRACE


@pytest.mark.parametrize(
    "trace",
    [
        "",
        "x",
        TRACE.upper(),
        TRACE + "-00",
        TRACE.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-{'1' * 16}-01",
        f"00-{'1' * 32}-{'0' * 16}-01",
    ],
)
def test_malformed_traces_are_refused(trace: str) -> None:
    with pytest.raises(UsageError, match=r"^--traceparent: .* is not a W3C traceparent; write it like 00-"):
        command_event("amount=1", traceparent=trace)


@pytest.mark.parametrize(
    "state", ["a=1", "a=1, b@c=2 ,", "0t@sys*/-_=!x=".rstrip("="), ",".join(["a=1"] * 32)]
)
def test_tracestate_becomes_an_attribute(state: str) -> None:
    assert command_event("amount=1", traceparent=TRACE, tracestate=state)["tracestate"] == state


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("", "is not a W3C tracestate; write it like vendor=value"),
        ("a", "is not a W3C tracestate"),
        ("A=1", "is not a W3C tracestate"),
        ("a=1=2", "is not a W3C tracestate"),
        ("a=é", "is not a W3C tracestate"),
        (",".join(["a=1"] * 33), "is not a W3C tracestate"),
        (f"a={'x' * 255},b={'x' * 255}", "has 515 characters; give 512 at most"),
    ],
)
def test_malformed_tracestates_are_refused(state: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^--tracestate.*{message}"):
        command_event("amount=1", traceparent=TRACE, tracestate=state)


def test_tracestate_needs_a_traceparent() -> None:
    with pytest.raises(UsageError, match=r"^--tracestate needs --traceparent; set both"):
        command_event("amount=1", tracestate="a=1")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([], "missing required field `amount`; Deposit takes amount: int"),
        (["amount"], "not a field: 'amount'; write field=text or field:=json"),
        (["amuont=1"], "has no field 'amuont'; Deposit takes amount: int"),
        (["amount=x"], "amount=x: Expected `int`, got `str`"),
        (["amount=1.5"], "amount=1.5: Expected `int`"),
        (['amount:="1"'], "Expected `int`, got `str`"),
        (["amount:={"], "amount:={"),
        (["amount:=two"], "not JSON: two (a text is written with = instead of :=)"),
        (["amount=1", "amount=2"], "given twice"),
    ],
)
def test_invalid_fields_are_rejected(fields: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        command_event(*fields)
    assert message in str(raised.value)


def test_unknown_commands_are_refused() -> None:
    with pytest.raises(UsageError, match="no command 'Lend'; known: Close, Deposit, Open, Withdraw"):
        command_event(command="Lend")


@pytest.mark.parametrize("name", ["deposit", "Deposti", "bank_account.Deposti"])
def test_similar_commands_are_suggested(name: str) -> None:
    with pytest.raises(UsageError, match=r"did you mean Deposit\? known: "):
        command_event(command=name)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_non_json_numbers_are_refused(number: str) -> None:
    with pytest.raises(UsageError):
        compose(SENSOR, "s", "Record", [f"value={number}"])


class Read(cqrs.Command):
    temp: float | None = None
    more: tuple[float | None, ...] = ()
    by: dict[str, float | None] = cqrs.field(default_factory=dict)


class Measured(cqrs.Event):
    pass


class Meter(cqrs.State):
    pass


def decide(command: Read, meter: Meter) -> list[Measured]:
    return [Measured()]


def evolve(meter: Meter, event: Measured) -> Meter:
    return meter


METER = Aggregate.of("meter", cqrs.Decider(decide, evolve, initial=Meter()))


@pytest.mark.parametrize("field", ["temp=nan", "temp=-inf", "more=nan", "by[a]=inf"])
def test_optional_numbers_are_finite(field: str) -> None:
    with pytest.raises(UsageError, match="is a number that is not finite"):
        command_data(METER, "meter.Read", [field])


@pytest.mark.parametrize(
    ("time", "text"), [(10**18, "9999-12-31T23:59:59.999Z"), (-1, "1970-01-01T00:00:00.000Z")]
)
def test_times_stay_within_the_calendar(time: int, text: str) -> None:
    ready = compose(BANK_ACCOUNT, "a", "Deposit", ["amount=1"], Attributes(expiry=time, not_before=time))
    document = json.loads(ready.value)
    assert (document["expirytime"], document["notbefore"]) == (text, text)


@pytest.mark.parametrize("expected", ["07", "+7", "-1", "7.0", "", str(2**63)])
def test_malformed_expected_versions_are_refused(expected: str) -> None:
    with pytest.raises(UsageError, match="--expect"):
        command_event("amount=1", expected=expected)


@pytest.mark.parametrize("subject", ["", "x" * 1025, "\udcff"])
def test_unacceptable_ids_are_refused(subject: str) -> None:
    with pytest.raises(UsageError, match="ID"):
        compose(BANK_ACCOUNT, subject, "Deposit", ["amount=1"])


def test_empty_correlation_is_refused() -> None:
    with pytest.raises(UsageError, match="--correlation has 0 bytes"):
        command_event("amount=1", correlation="")


def test_non_utf8_fields_are_refused() -> None:
    with pytest.raises(UsageError):
        command_event("owner=\udcff", command="Open")


def test_missing_attributes_are_filled_in() -> None:
    line = b' {"type":"bank_account.Open","subject":"a","data":{"owner":"Ada"}}\n'
    ready = complete_line(line)
    assert ready.value.endswith(line.strip()[1:])
    assert json.loads(ready.value) == {
        "specversion": "1.0",
        "id": ready.id,
        "source": "/cqrs/send",
        "type": "bank_account.Open",
        "subject": "a",
        "data": {"owner": "Ada"},
    }


def test_complete_lines_stay_unchanged() -> None:
    line = b'{"specversion":"1.0","id":"1","source":"/x","type":"a.B","subject":"s", "extra" : 1}'
    assert complete_line(line) == ("1", "a", "s", "a.B", line)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"null",
        b'{"type":"a.B"}',
        b'{"subject":"s"}',
        b'{"type":"B","subject":"s"}',
        b'{"type":".B","subject":"s"}',
        b'{"type":"a.","subject":"s"}',
        b'{"type":"a.B","subject":""}',
        b'{"type":"a.B","subject":1}',
        b'{"type":"a.B","subject":"s","id":null}',
        b'{"type":"a.B","subject":"s"} {}',
        b'{"type":"a.B","subject":"\xff"}',
        b'{"type":"a.B","subject":"s","data":' + b"[" * 5000,
    ],
)
def test_lines_without_commands_are_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        complete_line(line)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("expectedversoin", "expectedversion"),
        ("expectedVersion", "expectedversion"),
        ("expected_version", "expectedversion"),
        ("expect", "expectedversion"),
        ("expires", "expirytime"),
        ("corelationid", "correlationid"),
        ("ID", "id"),
    ],
)
def test_misspelt_attributes_are_refused(name: str, suggestion: str) -> None:
    line = json.dumps({"type": "a.B", "subject": "s", name: "7"}).encode()
    with pytest.raises(ValueError, match=f"attribute {name} is not known; did you mean {suggestion}?"):
        complete_line(line)


@pytest.mark.parametrize(
    "name",
    ["tenant", "timezone", "sourceid", "traceid", "tracestate", "dataschema", "sequence", "partitionkey"],
)
def test_extension_attributes_are_allowed(name: str) -> None:
    line = json.dumps({"type": "a.B", "subject": "s", name: "7"}).encode()
    assert json.loads(complete_line(line).value)[name] == "7"
