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
from cqrs_cli.core.handle import call_decide
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.personal_fields import Personal, personal
from cqrs_cli.core.personal.redaction import (
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
from tests.core.personal.leaking_aggregate import ANN, HEARD, Say


class Hearing(tally.Partition):
    aggregate = HEARD


def say(how: str, who: Any = ANN, offset: int = 0) -> Any:
    command = tally.command(data={"who": who, "how": how}, id=f"{offset}").replace(b"tally.Add", b"heard.Say")
    return tally.record(offset, command)


@pytest.mark.parametrize(
    ("how", "reason", "message"),
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
def test_outcome_has_no_personal_value(how: str, reason: str, message: str) -> None:
    partition = Hearing()
    done = partition.decide(say(how))
    verdict = partition.last()["data"]
    assert verdict["reason"] == reason and verdict["message"].endswith(message)
    letters = [letter.headers for letter in done.dead_letters]
    assert ANN.casefold() not in repr([verdict, letters, done.tracebacks]).casefold()


def test_place_of_an_error_is_told() -> None:
    partition = Hearing()
    (trace,) = partition.decide(say("raise")).tracebacks.values()
    assert partition.last()["data"]["message"].startswith("leaking_aggregate.py:")
    assert "raise RuntimeError(command.who)" in trace and trace.endswith("RuntimeError\n")


def test_value_of_the_state_is_withheld() -> None:
    partition = Hearing()
    partition.decide(say(""))
    assert partition.verdict(say("state", "Bob", 1))["message"] == REDACTED_TEXT


def test_reason_to_wait_is_withheld() -> None:
    """The reason is in the outcome and in the entry of the deferred command."""
    record = say("later")
    later = call_decide(HEARD, record, read_command(record), Say(ANN, "later"), None)
    assert isinstance(later, cqrs.Later)
    assert (later.after, later.reason) == (timedelta(hours=1), REDACTED_TEXT)


def test_code_with_value_is_the_common() -> None:
    assert Hearing().verdict(say("code"))["code"] == "REJECTED"
    assert Hearing().verdict(say("reject"))["code"] == "WHO"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("heard.Said", {"who": [ANN], "how": 1}),
        ("heard.Old", {"who": ANN, "how": "raise"}),
        ("heard.Old", {"who": ANN, "how": ""}),
        ("heard.Old", [ANN]),
    ],
)
def test_unreadable_event_is_not_quoted(kind: str, data: object) -> None:
    with pytest.raises(UnreadableEventError) as failure:
        decode_event(HEARD, event_of(kind, data))
    assert ANN not in str(failure.value) + repr(failure.value.__cause__)


def event_of(kind: str, data: object) -> EventEnvelope:
    return EventEnvelope(
        id="0/0/0",
        type=kind,
        subject="a",
        time="",
        causationid="",
        aggregateversion=1,
        eventindex=0,
        eventcount=1,
        data=Raw(encode_json(data)),
    )


@pytest.mark.parametrize(
    ("kind", "how"), [("heard.Said", "full"), ("heard.Said", "exit"), ("heard.Old", "short")]
)
def test_process_error_has_no_words(kind: str, how: str) -> None:
    """The error keeps its type but not its message, so a retry may succeed."""
    event = event_of(kind, {"who": ANN, "how": how})
    for fold in (
        partial(fold_next, HEARD, 0, HEARD.decider.initial, event),
        partial(ReplayFold(HEARD).fold, [msgspec.json.encode(event)], int),
    ):
        with pytest.raises(PROCESS_ERRORS) as failure:
            fold()
        assert "leaking_aggregate.py" in (told := "".join(traceback.format_exception(failure.value)))
        assert ANN not in told


class Rank(cqrs.Command):
    name: Annotated[Literal["none", "first"], personal(erased="none")] = "none"
    note: str = ""


@pytest.mark.parametrize(
    ("data", "said"),
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
def test_misfit_tells_no_value(data: bytes, said: str) -> None:
    """The decoder reads the value before it finds the error."""
    with pytest.raises(ValueError) as misfit:
        msgspec.json.decode(data, type=Rank)
    assert ("Ann Smith" in str(misfit.value)) == (said in (REDACTED_TEXT, UNSEARCHABLE_TEXT))
    assert redact_mismatch(str(misfit.value), Rank, data) == said


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


def test_placeholders_say_nothing() -> None:
    assert personal_texts(Register("Al"), Customer()) == set()


@given(st.text(min_size=3), st.text(), st.text())
def test_value_never_passes(value: str, before: str, behind: str) -> None:
    assert redact_text(f"{before}{value}{behind}", {value}) == REDACTED_TEXT


def test_other_code_says_only_the_class() -> None:
    """Projections and process managers get events of the aggregate, so their exceptions may contain its values."""
    with pytest.raises(LookupError) as raised:
        Say(ANN, "undone")
    assert HEARD.describe_error(raised.value, "tests.core.personal").endswith(": LookupError")
    assert tally.AGGREGATE.describe_error(raised.value, "tests.core.personal").endswith(
        f": LookupError: {ANN}"
    )
    shown = HEARD.redact_error(raised.value)
    assert (type(shown).__name__, str(shown), shown.__traceback__) == ("LookupError", "", raised.tb)


def test_class_with_a_value_as_name_is_not_named() -> None:
    error = type(ANN, (KeyError,), {})()
    assert HEARD.describe_error(error) == "KeyError"
    assert ANN not in redacted_traceback(error)
    assert ANN not in type(HEARD.redact_error(error)).__name__
    assert class_name(Say) == "Say"
