"""An aggregate of notes. Its commands take the fast path, or leave it in every possible way."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from hypothesis import strategies as st

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.event import HEADERS, EventEnvelope, read_event
from cqrs_cli.core.messages.fingerprint import fingerprint
from cqrs_cli.core.messages.record import Headers, Record
from cqrs_cli.core.stored import DedupEntry
from tests.fuzz.damage import damaged_bytes

STRUCTURED: Headers = list(HEADERS)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Note(cqrs.Command):
    texts: tuple[str, ...] = ()
    weight: float = 0.0
    due: datetime | None = None
    mode: str = ""

    def __post_init__(self) -> None:
        if self.mode == "unread":
            raise LookupError("unread")


class Noted(cqrs.Event):
    text: str
    weight: float = 0.0
    due: datetime | None = None


class Notes(cqrs.State):
    texts: tuple[str, ...] = ()
    weight: float = 0.0


decided_commands: list[Note] = []


def decide(note: Note, notes: Notes, at: cqrs.Context) -> Iterator[Noted]:
    decided_commands.append(note)
    match note.mode:
        case "reject":
            raise cqrs.Rejected("no", code="NO")
        case "later":
            raise cqrs.Later()
        case "raise":
            raise RuntimeError(f"at version {at.version}")
        case "memory":
            raise MemoryError
        case "foreign":
            yield b"no event"  # type: ignore[misc]
        case "endless":
            yield Noted("x", float("inf"))
        case "fold" | "fold-memory" | "other":
            yield Noted(note.mode)
    for text in note.texts:
        yield Noted(text, note.weight, note.due)


def evolve(notes: Notes, noted: Noted) -> Notes:
    if noted.text == "fold":
        raise RuntimeError("cannot")
    if noted.text == "fold-memory":
        raise MemoryError
    if noted.text == "other":
        return noted  # type: ignore[return-value]
    return Notes((*notes.texts, noted.text)[-3:], notes.weight + noted.weight)


NOTES = Aggregate.of("notes", cqrs.Decider(decide, evolve, Notes()))

#: Ids of commands: any text, and UUIDs.
IDS = [*"123z", "01a20cd5-8d19-75b2-bc9c-7125363e3ff3", "01a20cd5-98d0-76a9-b660-edb4dea9b748"]

texts = st.text('aé"\\\n\x7f 😀', max_size=3)
#: The ways in which a command leaves the fast path: changed attributes and changed fields of its data.
rare_attributes: dict[str, Any] = {
    "specversion": st.just("2"),
    "id": st.sampled_from(["é", '"', ""]),
    "source": st.just(""),
    "type": st.sampled_from(["notes.Nope", "cqrs.Cancel", ""]),
    "subject": st.sampled_from("bé"),
    "data": st.sampled_from([None, [], {"id": "1"}, {"unknown": 1}]),
    "expectedversion": st.sampled_from(["any", "none", "exists", "0", "1", ">=1", 2, None, [], "x", "é"]),
    "expirytime": st.sampled_from(["2026-01-01T00:00:00Z", "2999-01-01T00:00:00Z", None, 5]),
    "notbefore": st.sampled_from(["1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z", None]),
    "deferredfrom": st.sampled_from(["T/3/1", None]),
    "correlationid": st.sampled_from(["c", "", None, "é"]),
    "causationid": st.just("e"),
    "traceparent": st.sampled_from([TRACE, "", None]),
    "tracestate": st.sampled_from(["a=b", "", "a=" + 600 * "b", None]),
    "datacontenttype": st.sampled_from(["application/json", "text/json", "text/plain", None]),
    "data_base64": st.sampled_from(["e30=", None]),
    "dataref": st.just("file:///x"),
    "datasha256": st.sampled_from(["0" * 64, None]),
    "time": st.just("2026-11-22T01:02:03Z"),
    "anything": st.sampled_from([1, {"a": [1]}, "x" * 1100]),
}
rare_data: dict[str, Any] = {
    "texts": st.lists(texts | st.just("long" * 200), max_size=3),
    "weight": st.sampled_from([1.5, 1e300]),
    "due": st.sampled_from(["2026-11-22T01:02:03+01:00", "2026-11-22T01:02:03", None]),
    "mode": st.sampled_from(["reject", "later", "raise", "foreign", "endless", "fold", "other", "unread"]),
}


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Draw a command record for the fast path, possibly with changes that leave it."""

    def with_changes(envelope_defaults: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
        names = draw(st.just([]) | st.lists(st.sampled_from(sorted(changes)), max_size=2))
        return {**envelope_defaults, **{name: draw(changes[name]) for name in names}}

    envelope_defaults = {
        "specversion": "1.0",
        "id": draw(st.sampled_from(IDS)),
        "source": "/t",
        "type": "notes.Note",
    }
    data = with_changes(draw(st.sampled_from([{"texts": ["x"]}] * 5 + [{"mode": "later"}])), rare_data)
    envelope = with_changes(
        {**envelope_defaults, "subject": draw(st.sampled_from("aab")), "data": data}, rare_attributes
    )
    value = json.dumps(envelope, ensure_ascii=draw(st.booleans())).encode()
    key: bytes | None = str(envelope["subject"]).encode()
    headers: Headers | None = STRUCTURED
    match draw(st.sampled_from(["", "", "", "", "value", "key", "headers"])):
        case "value":
            value = draw(damaged_bytes([value]))
        case "key":
            key = draw(st.sampled_from([b"b", b"\xff", b"", None]))
        case "headers":
            other_headers: list[Headers | None] = [[], None, [("content-type", b"text/plain")]]
            headers = draw(st.sampled_from(other_headers))
    return Record(0, draw(st.sampled_from([5000, 5000, 5001, 7000])), key, value, headers)


contexts = st.fixed_dictionaries(
    {},
    optional={
        "remembered": st.dictionaries(
            st.tuples(st.sampled_from("ab"), st.sampled_from(IDS)),
            st.builds(
                DedupEntry,
                timestamp=st.sampled_from(
                    [3999, 4000, 5000]
                ),  # the dedup window of test_fast_path.py is 1000 ms
                offset=st.just(1),
                status=st.just("accepted"),
                version=st.just(1),
                events=st.just(1),
                fingerprint=st.just(fingerprint("notes.Note", b'{"texts": ["x"]}', None)) | st.just(0),
            ),
            max_size=3,
        ),
        "payload_threshold": st.just(30),
        "max_event_bytes": st.sampled_from([900, 1600, 2100]),
        "force_failed": st.just(frozenset([2])),
        "poison_reasons": st.just({3: "it died"}),
        "partition_of": st.just(lambda key: 3 if key == b"a" else 4),
    },
)


def note(data: dict[str, Any], ascii: bool = True, **attributes: Any) -> Record:
    envelope = {
        "specversion": "1.0",
        "id": "1",
        "source": "/t",
        "type": "notes.Note",
        "subject": "a",
        "data": data,
    }
    value = json.dumps({**envelope, **attributes}, ensure_ascii=ascii).encode()
    return Record(0, 5000, b"a", value, STRUCTURED)


def event(version: int, text: str = "x", **members: Any) -> EventEnvelope:
    return read_event(
        json.dumps(
            {
                "specversion": "1.0",
                "id": f"0/{version * 10}/0",
                "source": "/cqrs/notes",
                "type": "notes.Noted",
                "subject": "a",
                "time": f"2026-11-21T01:02:03.{version:03d}Z",
                "causationid": "c",
                "aggregateversion": version,
                "eventindex": 0,
                "eventcount": 1,
                "data": {"text": text},
                **members,
            }
        ).encode()
    )
