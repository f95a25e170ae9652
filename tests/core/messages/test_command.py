"""Envelopes, with the CloudEvents SDK as oracle: it writes what we read, and reads what we write."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import Context, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.reasons import Reason, Refused
from cqrs_cli.core.messages.record import UNREADABLE, Headers, Record

FORMAT = JSONFormat()
STRUCTURED = (b"application/cloudevents+json", b"Application/CloudEvents+JSON; charset=utf-8")

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
plain = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | words
datas = st.dictionaries(words, plain | st.lists(plain, max_size=3), max_size=4)
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
extensions = st.fixed_dictionaries(
    {},
    optional={
        "expectedversion": st.sampled_from(["7", "any", "none", "exists", ">=3", "0"]),
        "expirytime": moments.map(lambda moment: moment.isoformat()),
        "correlationid": words,
        "causationid": words,
        "traceparent": words,
        "colour": words,
    },
)
events = st.builds(
    lambda named, more, time, data: CloudEvent({**named, **more, **({"time": time} if time else {})}, data),
    st.fixed_dictionaries({"id": words, "source": words, "type": words, "subject": words}),
    extensions,
    st.none() | moments,
    datas,
)


def written(message: KafkaMessage) -> CommandEnvelope:
    return read_command(Record(0, 0, b"key", message.value, list(message.headers.items())))


def agree(envelope: CommandEnvelope, event: CloudEvent) -> None:
    attributes = event.get_attributes()
    for name in ("id", "source", "type", "subject", "correlationid", "causationid", "traceparent"):
        assert getattr(envelope, name) == attributes.get(name), name
    assert envelope.expected_text() == attributes.get("expectedversion")
    expiry = attributes.get("expirytime")
    assert envelope.expirytime == (expiry and datetime.fromisoformat(expiry))
    assert json.loads(bytes(envelope.data)) == event.get_data()


@given(events)
def test_structured_commands_of_the_sdk_are_read(event: CloudEvent) -> None:
    agree(written(to_structured(event, FORMAT)), event)


@given(events)
def test_binary_commands_of_the_sdk_are_read(event: CloudEvent) -> None:
    agree(written(to_binary(event, FORMAT)), event)


@given(events)
def test_both_modes_say_the_same(event: CloudEvent) -> None:
    structured, binary = written(to_structured(event, FORMAT)), written(to_binary(event, FORMAT))
    assert structured.expected_text() == binary.expected_text()
    assert bytes(structured.data) == bytes(binary.data)


class Say(cqrs.Command):
    words: str


class Said(cqrs.Event):
    words: str


class Talk(cqrs.State):
    count: int = 0


def decide(command: Say, talk: Talk) -> list[Said]:
    if command.words == "no":
        raise cqrs.Rejected("nö", code="NO")
    return [Said(command.words)] * (command.words != "nothing")


def evolve(talk: Talk, event: Said) -> Talk:
    return Talk(talk.count + 1)


AGGREGATE = Aggregate.of("talk", cqrs.Decider(decide, evolve, Talk()))


def decided(data: dict[str, Any], **attributes: Any) -> Decisions:
    value = json.dumps(
        {
            "specversion": "1.0",
            "id": "c1",
            "source": "/t",
            "type": "talk.Say",
            "subject": "süb",
            "data": data,
            **attributes,
        }
    )
    record = Record(7, 1_763_686_923_456, "süb".encode(), value.encode(), list(HEADERS))
    return decide_batch(
        AGGREGATE, [record], Context(3, lambda _: None, lambda *_: None, lambda: 2_000_000_000_000)
    )


def as_the_sdk_reads(output: tuple[bytes, bytes | None, int]) -> CloudEvent:
    value, key, _ = output
    event = from_kafka(KafkaMessage(dict(HEADERS), key, value), FORMAT)
    assert isinstance(event, CloudEvent)
    return event


@given(words)
def test_the_sdk_reads_our_events(text: str) -> None:
    if text in ("no", "nothing"):
        return
    event = as_the_sdk_reads(decided({"words": text}, correlationid="order-9").events[0])
    assert (event.get_id(), event.get_type(), event.get_subject()) == ("3/7/0", "talk.Said", "süb")
    assert event.get_time() == datetime(2025, 11, 21, 1, 2, 3, 456000, UTC)
    assert event.get_extension("causationid") == "c1"
    assert event.get_extension("correlationid") == "order-9"
    assert event.get_extension("aggregateversion") == 1
    assert event.get_data() == {"words": text}


@pytest.mark.parametrize(
    ("data", "attributes", "status", "kind"),
    [
        ({"words": "hi"}, {}, "accepted", "talk.Say.accepted"),
        ({"words": "nothing"}, {}, "unchanged", "talk.Say.unchanged"),
        ({"words": "no"}, {}, "rejected", "talk.Say.rejected"),
        ({"words": "hi"}, {"expectedversion": ">=3"}, "rejected", "talk.Say.rejected"),
        ({"words": "hi"}, {"expirytime": "2026-01-01T00:00:00Z"}, "rejected", "talk.Say.rejected"),
        ({"words": 1}, {}, "failed", "talk.Say.failed"),
        ({"words": "hi"}, {"type": "talk.Shout"}, "failed", "cqrs.failed"),
    ],
)
def test_the_sdk_reads_our_outcomes(
    data: dict[str, Any], attributes: dict[str, Any], status: str, kind: str
) -> None:
    event = as_the_sdk_reads(decided(data, **attributes).outcomes[0])
    verdict = event.get_data()
    assert isinstance(verdict, dict)
    assert (event.get_id(), event.get_type(), event.get_subject()) == ("3/7", kind, "süb")
    assert (verdict["status"], verdict["partition"], verdict["offset"]) == (status, 3, 7)


def command(**members: Any) -> bytes:
    usual = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t.T", "subject": "a"}
    return json.dumps({**usual, **members}).encode()


BINARY: Headers = [
    ("ce_specversion", b"1.0"),
    ("ce_id", b"1"),
    ("ce_source", b"/s"),
    ("ce_type", b"t.T"),
    ("ce_subject", b"a"),
]


STRUCTURED_HEADERS: Headers = [*HEADERS]


def read(value: bytes | None, headers: Headers | None = STRUCTURED_HEADERS) -> CommandEnvelope:
    return read_command(Record(0, 0, b"a", value, headers))


def invalid(value: bytes | None, headers: Headers | None = STRUCTURED_HEADERS) -> bool:
    with pytest.raises(Refused) as raised:
        read(value, headers)
    return raised.value.reason is Reason.INVALID_ENVELOPE


@pytest.mark.parametrize("content_type", STRUCTURED)
def test_the_media_type_counts_without_parameters_and_case(content_type: bytes) -> None:
    assert read(command(), [("content-type", content_type)]).id == "1"


@pytest.mark.parametrize(
    "content_type", [None, b"application/json", b"application/vnd.x+json; v=1", b"TEXT/JSON"]
)
def test_binary_data_is_json_by_default_and_by_any_json_type(content_type: bytes | None) -> None:
    headers = BINARY if content_type is None else [*BINARY, ("content-type", content_type)]
    assert bytes(read(b'{"n":1}', headers).data) == b'{"n":1}'


def test_of_a_repeated_header_the_last_counts() -> None:
    assert read(b"{}", [*BINARY, ("ce_id", b"2")]).id == "2"
    assert read(command(), [("content-type", b"application/json"), *HEADERS]).id == "1"
    assert invalid(command(), [*HEADERS, ("content-type", b"text/plain")])


def test_the_structured_content_type_goes_before_attributes_in_the_headers() -> None:
    headers: Headers = [*((name, b"other") for name, _ in BINARY), *HEADERS]
    assert read(command(), headers).id == "1"


def test_missing_data_is_an_empty_object() -> None:
    assert bytes(read(command()).data) == b"{}"
    assert bytes(read(b"", BINARY).data) == b"{}"


def test_a_null_attribute_is_an_absent_one() -> None:
    envelope = read(command(expectedversion=None, expirytime=None, correlationid=None, data_base64=None))
    assert (envelope.expected_text(), envelope.expirytime, envelope.correlationid) == (None, None, None)
    assert read(b"{}", [*BINARY, ("ce_expectedversion", None)]).expected_text() is None


@pytest.mark.parametrize(
    ("given", "text"),
    [("7", "7"), (7, "7"), (">=7", ">=7"), ("", ""), (7.0, "7.0"), (-1, "-1"), (True, "true"), ([1], "[1]")],
)
def test_an_expected_version_is_kept_as_it_was_received(given: Any, text: str) -> None:
    assert read(command(expectedversion=given)).expected_text() == text


def test_binary_attributes_are_strings() -> None:
    assert read(b"{}", [*BINARY, ("ce_expectedversion", b"7")]).expected_text() == "7"
    assert read(b"{}", [*BINARY, ("ce_expectedversion", b'"7"')]).expected_text() == '"7"'


@pytest.mark.parametrize("headers", [None, [], [("content-type", b"application/json")], [("ce_id", b"1")]])
def test_neither_content_type_nor_specversion_is_no_cloudevent(headers: Headers | None) -> None:
    assert invalid(command(), headers)


@pytest.mark.parametrize(
    "content_type",
    [b"application/cloudevents-batch+json", b"application/cloudevents+avro", b"application/cloudevents"],
)
def test_other_forms_of_cloudevents_are_refused(content_type: bytes) -> None:
    assert invalid(command(), [("content-type", content_type)])
    assert invalid(command(), [*BINARY, ("content-type", content_type)])


@pytest.mark.parametrize("content_type", [b"text/plain", b"application/octet-stream", b"\xff"])
def test_binary_data_that_is_not_json_is_refused(content_type: bytes) -> None:
    assert invalid(b"{}", [*BINARY, ("content-type", content_type)])


@pytest.mark.parametrize("missing", [name for name, _ in BINARY])
def test_each_required_attribute_is_required_and_not_empty(missing: str) -> None:
    rest = [header for header in BINARY if header[0] != missing]
    assert invalid(b"{}", rest)
    assert invalid(b"{}", [*rest, (missing, b"")])
    assert invalid(b"{}", [*rest, (missing, None)])
    assert invalid(command(**{missing[3:]: ""}))
    assert invalid(command(**{missing[3:]: None}))
    assert invalid(command(**{missing[3:]: 1}))


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"null",
        b"[]",
        b"\xff",
        b"\xef\xbb\xbf" + command(),
        command() + b" x",
        command()[:-1],
        command(specversion="0.3"),
        command(data_base64="e30="),
        command(datacontenttype="text/xml"),
        command(expirytime="2026-11-21T01:02:03"),
        command(expirytime=5),
        command(correlationid=5),
        b'{"id":"\\ud800",' + command()[1:],
        command().replace(b'"1"', b'"\xff"'),
        b'{"data":' * 100_000,
    ],
)
def test_what_is_no_envelope_is_refused(value: bytes | None) -> None:
    assert invalid(value)


@pytest.mark.parametrize("name", ["id", "source", "type", "subject", "correlationid", "traceparent", "time"])
def test_an_attribute_ends_at_1024_bytes(name: str) -> None:
    longest = "ä" * 512
    assert getattr(read(command(**{name: longest})), name) == longest
    assert invalid(command(**{name: longest + "x"}))
    headers = [header for header in BINARY if header[0] != f"ce_{name}"]
    assert getattr(read(b"{}", [*headers, (f"ce_{name}", longest.encode())]), name) == longest
    assert invalid(b"{}", [*headers, (f"ce_{name}", longest.encode() + b"x")])


@pytest.mark.parametrize("name", ["ext", "dataschema", "datacontenttype", "expirytime"])
def test_no_other_attribute_is_longer(name: str) -> None:
    longest = "ä" * 512
    assert invalid(command(**{name: longest + "x"}))
    assert invalid(b"{}", [*BINARY, (f"ce_{name}", longest.encode() + b"x")])
    assert read(command(ext=longest)) and read(b"{}", [*BINARY, ("ce_ext", longest.encode())])
    assert invalid(command(ext=list(range(500)))) and read(command(data={"text": longest * 9}))


def test_a_header_whose_name_cannot_be_read_is_no_envelope() -> None:
    assert invalid(command(), UNREADABLE)


def test_an_expiry_has_its_offset_from_utc() -> None:
    given = datetime(2026, 11, 21, 1, 2, 3, tzinfo=UTC) + timedelta(hours=2)
    assert read(command(expirytime="2026-11-21T05:02:03+02:00")).expirytime == given


names = st.sampled_from(
    ["content-type", "ce_specversion", "ce_id", "ce_type", "ce_source", "ce_subject", "ce_time", "x"]
)
contents = st.none() | st.binary(max_size=8) | st.sampled_from([b"1.0", b"application/json", *STRUCTURED])
values = st.none() | st.binary(max_size=30) | st.sampled_from([command(), command()[:-1], b"{}"])


@given(values, st.none() | st.lists(st.tuples(names, contents), max_size=8))
def test_whatever_comes_is_a_command_or_an_invalid_envelope(
    value: bytes | None, headers: Headers | None
) -> None:
    try:
        envelope = read_command(Record(0, 0, b"a", value, headers))
    except Refused as error:
        assert error.reason is Reason.INVALID_ENVELOPE
    else:
        assert envelope.id and envelope.type and envelope.subject
