"""No message about an aggregate with personal fields contains a personal value."""

import traceback
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

import cqrs_cli as cqrs
from cqrs_cli.cli.tracebacks import redacted_traceback
from cqrs_cli.core.aggregate.errors import PROCESS_ERRORS, class_name
from cqrs_cli.core.fold import UnreadableEventError, decode_event, fold_next
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.personal_fields import Personal, personal
from cqrs_cli.core.personal.text_redaction import (
    REDACTED_TEXT,
    UNSEARCHABLE_TEXT,
    personal_texts,
    personal_texts_in,
    redact_mismatch,
    redact_text,
)
from cqrs_cli.scans.replay.fold import ReplayFold
from tests.core import tally
from tests.core.personal.customer import Customer, Order, Register
from tests.core.personal.leaking_aggregate import LEAKING, PERSONAL_NAME, Greet


class LeakingPartition(tally.Partition):
    aggregate = LEAKING


def greet(mode: str, name: Any = PERSONAL_NAME, offset: int = 0) -> Any:
    command = tally.command(data={"name": name, "mode": mode}, id=f"{offset}").replace(
        b"tally.Add", b"greeting.Greet"
    )
    return tally.record(offset, command)


@pytest.mark.parametrize(
    ("mode", "reason", "message"),
    [
        ("raise", "HANDLER_ERROR", "RuntimeError"),
        ("undone", "HANDLER_ERROR", "LookupError"),
        ("fold", "HANDLER_ERROR", "KeyError"),
        ("reject", "BUSINESS_RULE", REDACTED_TEXT),
        ("code", "BUSINESS_RULE", "no"),
        ("unfit", "INVALID_PAYLOAD", REDACTED_TEXT),
        ("rule", "BUSINESS_RULE", "it may not"),
    ],
)
def test_outcome_has_no_personal_value(mode: str, reason: str, message: str) -> None:
    partition = LeakingPartition()
    decisions = partition.decide(greet(mode))
    verdict = partition.last_outcome()["data"]
    assert verdict["reason"] == reason and verdict["message"].endswith(message)
    letters = [letter.headers for letter in decisions.dead_letters]
    assert PERSONAL_NAME.casefold() not in repr([verdict, letters, decisions.tracebacks]).casefold()


def test_line_of_an_error_is_shown() -> None:
    partition = LeakingPartition()
    (trace,) = partition.decide(greet("raise")).tracebacks.values()
    assert partition.last_outcome()["data"]["message"].startswith("leaking_aggregate.py:")
    assert "raise RuntimeError(command.name)" in trace and trace.endswith("RuntimeError\n")


def test_value_of_the_state_is_redacted() -> None:
    partition = LeakingPartition()
    partition.decide(greet(""))
    assert partition.verdict(greet("state", "Bob", 1))["message"] == REDACTED_TEXT


def test_reason_of_later_is_redacted() -> None:
    """The reason is in the outcome and in the entry of the deferred command."""
    partition = LeakingPartition()
    (entry,) = partition.decide(greet("later")).deferral_changes.values()
    assert entry is not None and entry.due > timedelta(hours=1) // timedelta(milliseconds=1)
    assert partition.last_outcome()["data"]["message"] == REDACTED_TEXT


def test_code_with_a_value_is_replaced() -> None:
    assert LeakingPartition().verdict(greet("code"))["code"] == "REJECTED"
    assert LeakingPartition().verdict(greet("reject"))["code"] == "NAME"


@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("greeting.Greeted", {"name": [PERSONAL_NAME], "mode": 1}),
        ("greeting.Old", {"name": PERSONAL_NAME, "mode": "raise"}),
        ("greeting.Old", {"name": PERSONAL_NAME, "mode": ""}),
        ("greeting.Old", [PERSONAL_NAME]),
    ],
)
def test_unreadable_event_is_not_quoted(type: str, data: object) -> None:
    with pytest.raises(UnreadableEventError) as failure:
        decode_event(LEAKING, event_of(type, data))
    assert PERSONAL_NAME not in str(failure.value) + repr(failure.value.__cause__)


def event_of(type: str, data: object) -> EventEnvelope:
    return EventEnvelope(
        id="0/0/0",
        type=type,
        subject="a",
        time="",
        causationid="",
        aggregateversion=1,
        eventindex=0,
        eventcount=1,
        data=Raw(encode_json(data)),
    )


@pytest.mark.parametrize(
    ("type", "mode"), [("greeting.Greeted", "full"), ("greeting.Greeted", "exit"), ("greeting.Old", "short")]
)
def test_process_error_has_no_message(type: str, mode: str) -> None:
    """The error keeps its type but not its message, so a retry may succeed."""
    event = event_of(type, {"name": PERSONAL_NAME, "mode": mode})
    for fold in (
        partial(fold_next, LEAKING, 0, LEAKING.decider.initial, event),
        partial(ReplayFold(LEAKING).fold, [msgspec.json.encode(event)], int),
    ):
        with pytest.raises(PROCESS_ERRORS) as failure:
            fold()
        assert "leaking_aggregate.py" in (text := "".join(traceback.format_exception(failure.value)))
        assert PERSONAL_NAME not in text


class Rank(cqrs.Command):
    name: Annotated[Literal["none", "first"], personal(erased="none")] = "none"
    note: str = ""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"name":"Ann Smith"}', REDACTED_TEXT),
        (b'{"name":"Ann Smith","name":"first"}', UNSEARCHABLE_TEXT),
        (b'{"name":"Ann Smith","note":', UNSEARCHABLE_TEXT),
        (b'{"name":"Ann Smith","\xff":1}', UNSEARCHABLE_TEXT),
        (b'{"name":"Ann Smith","note":' + b"[" * 100_000, UNSEARCHABLE_TEXT),
        (b'{"note":7}', "Expected `str`, got `int` - at `$.note`"),
    ],
    ids=["a misfit", "a member twice", "cut off", "not UTF-8", "nested", "without a value"],
)
def test_decoding_error_shows_no_value(data: bytes, message: str) -> None:
    """The decoder reads the value before it finds the error."""
    with pytest.raises(ValueError) as raised:
        msgspec.json.decode(data, type=Rank)
    assert ("Ann Smith" in str(raised.value)) == (message in (REDACTED_TEXT, UNSEARCHABLE_TEXT))
    assert redact_mismatch(str(raised.value), Rank, data) == message


def test_all_forms_of_a_value_are_found() -> None:
    order = Order(("Elm Street", "12"), 500, Decimal("2500.50"))
    assert personal_texts(order) == {"Elm Street", "2500.50"} == personal_texts_in(Order, encode_json(order))
    assert personal_texts(Customer(streets={"Elm/12": 700}, amount=500)) == {"Elm/12", "700"}


def test_time_is_found_as_text_and_json() -> None:
    class Born(cqrs.Command):
        at: Personal[datetime | None] = None

    assert personal_texts(Born(datetime(1990, 1, 2, tzinfo=UTC))) == {
        "1990-01-02 00:00:00+00:00",
        "1990-01-02T00:00:00Z",
    }


def test_redacted_values_are_not_personal() -> None:
    assert personal_texts(Register("Al"), Customer()) == set()


@given(st.text(min_size=3), st.text(), st.text())
def test_text_with_a_value_is_redacted(value: str, prefix: str, suffix: str) -> None:
    assert redact_text({value}, f"{prefix}{value}{suffix}") == REDACTED_TEXT


def test_other_code_shows_only_the_class() -> None:
    """Projections and process managers get events of the aggregate, so their exceptions may contain its values."""
    with pytest.raises(LookupError) as raised:
        Greet(PERSONAL_NAME, "undone")
    assert LEAKING.describe_error(raised.value, "tests.core.personal").endswith(": LookupError")
    assert tally.AGGREGATE.describe_error(raised.value, "tests.core.personal").endswith(
        f": LookupError: {PERSONAL_NAME}"
    )
    redacted = LEAKING.redact_error(raised.value)
    assert (type(redacted).__name__, str(redacted), redacted.__traceback__) == ("LookupError", "", raised.tb)


def test_class_named_like_a_value_is_redacted() -> None:
    error = type(PERSONAL_NAME, (KeyError,), {})()
    assert LEAKING.describe_error(error) == "KeyError"
    assert PERSONAL_NAME not in redacted_traceback(error)
    assert PERSONAL_NAME not in type(LEAKING.redact_error(error)).__name__
    assert class_name(Greet) == "Greet"
