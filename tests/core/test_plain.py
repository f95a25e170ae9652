"""The plain path, held against the contract's: for every record the same bytes, states and memory."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, Decisions, Undecided
from cqrs_cli.core.decide import Batch
from cqrs_cli.core.deferral.deferrals import Deferrals
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Headers, Record
from cqrs_cli.core.overlay import Overlay
from tests.fuzz.damage import damaged

STRUCTURED: Headers = list(HEADERS)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Note(cqrs.Command):
    texts: tuple[str, ...] = ()
    weight: float = 0.0
    due: datetime | None = None
    how: str = ""

    def __post_init__(self) -> None:
        if self.how == "unread":
            raise LookupError("unread")


class Noted(cqrs.Event):
    text: str
    weight: float = 0.0
    due: datetime | None = None


class Notes(cqrs.State):
    texts: tuple[str, ...] = ()
    weight: float = 0.0


asked: list[Note] = []


def decide(note: Note, notes: Notes, at: cqrs.Context) -> Iterator[Noted]:
    asked.append(note)
    match note.how:
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
            yield Noted(note.how)
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

texts = st.text('aé"\\\n\x7f 😀', max_size=3)
#: The ways in which a command may not be ordinary: attributes and fields of the data that it has instead.
rare: dict[str, Any] = {
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
datas: dict[str, Any] = {
    "texts": st.lists(texts | st.just("long" * 200), max_size=3),
    "weight": st.sampled_from([1.5, 1e300]),
    "due": st.sampled_from(["2026-11-22T01:02:03+01:00", "2026-11-22T01:02:03", None]),
    "how": st.sampled_from(["reject", "later", "raise", "foreign", "endless", "fold", "other", "unread"]),
}


@st.composite
def records(draw: st.DrawFn) -> Record:
    """A command record, ordinary or in one of the ways that commands are not."""

    def changed(plain: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
        names = draw(st.just([]) | st.lists(st.sampled_from(sorted(changes)), max_size=2))
        return {**plain, **{name: draw(changes[name]) for name in names}}

    plain = {
        "specversion": "1.0",
        "id": draw(st.sampled_from("123456")),
        "source": "/t",
        "type": "notes.Note",
    }
    data = changed(draw(st.sampled_from([{"texts": ["x"]}] * 5 + [{"how": "later"}])), datas)
    envelope = changed({**plain, "subject": draw(st.sampled_from("aab")), "data": data}, rare)
    value = json.dumps(envelope, ensure_ascii=draw(st.booleans())).encode()
    key: bytes | None = str(envelope["subject"]).encode()
    headers: Headers | None = STRUCTURED
    match draw(st.sampled_from(["", "", "", "", "value", "key", "headers"])):
        case "value":
            value = draw(damaged([value]))
        case "key":
            key = draw(st.sampled_from([b"b", b"\xff", b"", None]))
        case "headers":
            others: list[Headers | None] = [[], None, [("content-type", b"text/plain")]]
            headers = draw(st.sampled_from(others))
    return Record(0, draw(st.sampled_from([5000, 5000, 5001, 7000])), key, value, headers)


contexts = st.fixed_dictionaries(
    {},
    optional={
        "payload_threshold": st.just(30),
        "max_event_bytes": st.sampled_from([900, 1600, 2100]),
        "refused": st.just(frozenset([2])),
        "blamed": st.just({3: "it died"}),
        "partition_of": st.just(lambda key: 3 if key == b"a" else 4),
    },
)


class Contract(Batch):
    """A batch without the plain path."""

    def __init__(self, aggregate: Aggregate, context: BatchContext) -> None:
        super().__init__(aggregate, context)
        self.plain.decide = lambda record: False  # type: ignore[method-assign]


def decided(make: type[Batch], stream: list[Record], context: dict[str, Any], size: int) -> Any:
    """All that a batch comes to, piece by piece, and what `decide` was asked."""
    batch = make(NOTES, BatchContext(3, lambda _: None, lambda *_: None, lambda: 6000, **context))
    asked.clear()
    found: list[Any] = []
    try:
        for start in range(0, len(stream), size):
            done = batch.decide_piece(stream[start : start + size])
            found += [done.events, done.outcomes, done.dead_letters, done.payloads, batch.event_bytes]
    except Undecided as undecided:
        return undecided.offset, undecided.before, str(undecided), list(asked)
    return found, comparable(batch.done), list(asked)


def comparable(done: Decisions) -> list[Any]:
    memory = [done.states, done.remembered, done.deferred, done.clock]
    return [*memory, done.counts, done.reasons, sorted(done.raised)]


@pytest.mark.pins("decided-once", "no-lost-update")
@settings(max_examples=400)
@given(st.lists(records(), max_size=12), contexts, st.integers(1, 12))
def test_both_paths_give_the_same(stream: list[Record], context: dict[str, Any], size: int) -> None:
    """And `decide` is asked the same questions, each once."""
    numbered = [
        Record(n, each.timestamp, each.key, each.value, each.headers) for n, each in enumerate(stream)
    ]
    context = {"topic": "notes.commands", "window": 1000, **context}
    plain = decided(Batch, numbered, {**context, "deferrals": Deferrals(topic="T", partition=3)}, size)
    whole = decided(Contract, numbered, {**context, "deferrals": Deferrals(topic="T", partition=3)}, size)
    assert plain == whole


def note(data: dict[str, Any], **attributes: Any) -> Record:
    envelope = {
        "specversion": "1.0",
        "id": "1",
        "source": "/t",
        "type": "notes.Note",
        "subject": "a",
        "data": data,
    }
    return Record(0, 5000, b"a", json.dumps({**envelope, **attributes}).encode(), STRUCTURED)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"expectedversion": "none"},
        {"expectedversion": 0},
        {"correlationid": "c", "causationid": "e", "time": "2026-11-22T01:02:03Z"},
        {"traceparent": TRACE, "tracestate": "a=b"},
        {"datacontenttype": "application/json", "team": "red"},
    ],
)
def test_ordinary_commands_take_the_plain_path(
    attributes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = [note({"texts": ["x"]}, **attributes)]
    whole = decided(Contract, stream, {}, 1)
    monkeypatch.delattr(Batch, "_decide")
    monkeypatch.delattr(Overlay, "conclude")
    assert decided(Batch, stream, {}, 1) == whole
    assert whole[1][4]["accepted"] == 1


@pytest.mark.parametrize(
    "context, reason", [({"max_event_bytes": 1500}, ["TOO_LARGE"]), ({"payload_threshold": 30}, [])]
)
def test_large_events_are_not_plain(context: dict[str, Any], reason: list[str]) -> None:
    stream = [note({"texts": [300 * "long"]})]
    found = decided(Batch, stream, context, 1)
    assert found == decided(Contract, stream, context, 1)
    assert list(found[1][5]) == reason


@pytest.mark.parametrize("how", ["memory", "fold-memory"])
def test_process_error_leaves_the_batch_undecided(how: str) -> None:
    stream = [note({"how": how})]
    assert decided(Batch, stream, {}, 1) == decided(Contract, stream, {}, 1)
    assert asked == [Note(how=how)]
