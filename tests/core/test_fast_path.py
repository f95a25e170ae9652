"""The fast path and the general path give the same bytes, states and remembered ids for every record."""

import gc
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, DecisionInterrupted, Decisions
from cqrs_cli.core.decide import Batch
from cqrs_cli.core.deferral.deferrals import Deferrals
from cqrs_cli.core.messages.record import Record
from tests.core.notes import NOTES, TRACE, Note, asked, contexts, note, records


class Contract(Batch):
    """A batch without the fast path."""

    def __init__(self, aggregate: Aggregate, context: BatchContext) -> None:
        super().__init__(aggregate, context)
        self._fast_path = lambda *_: None


def decided(make: type[Batch], stream: list[Record], context: dict[str, Any], size: int) -> Any:
    """Return all results of a batch, decided in pieces, and the calls of `decide`."""
    batch = make(NOTES, BatchContext(3, lambda _: None, lambda *_: None, lambda: 6000, **context))
    asked.clear()
    found: list[Any] = []
    try:
        for start in range(0, len(stream), size):
            done = batch.decide_piece(stream[start : start + size])
            found += [done.events, done.outcomes, done.dead_letters, done.payloads, batch.event_bytes]
    except DecisionInterrupted as undecided:
        return undecided.offset, undecided.decided_count, str(undecided), list(asked)
    return found, comparable(batch.decisions), list(asked)


def comparable(done: Decisions) -> list[Any]:
    memory = [done.states, done.dedup_entries, done.deferral_changes, done.clock]
    return [*memory, done.counts, done.reason_counts, sorted(done.tracebacks)]


@pytest.mark.covers("decided-once", "no-lost-update")
@settings(max_examples=400)
@given(st.lists(records(), max_size=12), contexts, st.integers(1, 12))
def test_both_paths_give_the_same(stream: list[Record], context: dict[str, Any], size: int) -> None:
    """The fast path and the general path give the same records, and call `decide` with the same arguments."""
    numbered = [
        Record(n, each.timestamp, each.key, each.value, each.headers) for n, each in enumerate(stream)
    ]
    context = {"topic": "notes.commands", "dedup_window": 1000, **context}
    plain = decided(Batch, numbered, {**context, "deferrals": Deferrals(topic="T", partition=3)}, size)
    whole = decided(Contract, numbered, {**context, "deferrals": Deferrals(topic="T", partition=3)}, size)
    assert plain == whole


PLAIN: list[tuple[list[str], dict[str, Any]]] = [
    (["x"], {}),
    (["x", "y", "z"], {"expectedversion": "none"}),
    (['é "\\\n😀'], {"expectedversion": 0}),
    (["x"], {"correlationid": "c", "causationid": "e", "time": "2026-11-22T01:02:03Z"}),
    (["x", "y"], {"traceparent": TRACE, "tracestate": "a=b"}),
    (["x"], {"datacontenttype": "application/json", "team": "rød"}),
    (["x"], {"id": "ö-1", "correlationid": "ö"}),
]


@pytest.mark.parametrize("ascii", [True, False])
@pytest.mark.parametrize("texts, attributes", PLAIN)
def test_ordinary_commands_pass_plain_checks(
    texts: list[str], attributes: dict[str, Any], ascii: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands have one event or several, with letters beyond ASCII, escaped or not."""
    stream = [note({"texts": texts}, ascii=ascii, **attributes)]
    whole = decided(Contract, stream, {}, 1)
    monkeypatch.delattr(Batch, "_set_fingerprint")
    assert decided(Batch, stream, {}, 1) == whole
    assert whole[1][4]["accepted"] == 1


@pytest.mark.parametrize("text", ['"', "\\", "\n", "\x7f"])
@pytest.mark.parametrize("name", ["id", "subject", "correlationid", "tracestate"])
def test_texts_with_escapes_are_escaped(name: str, text: str) -> None:
    attributes: dict[str, Any] = {"traceparent": TRACE, name: text}
    found = note({"texts": ["x"]}, **attributes)
    stream = [structs.replace(found, key=text.encode())] if name == "subject" else [found]
    whole = decided(Contract, stream, {}, 1)
    assert decided(Batch, stream, {}, 1) == whole
    assert whole[1][4]["accepted"] == 1


def test_bytes_that_are_no_text_are_refused() -> None:
    found = note({"texts": ["x"]}, team="red")
    assert found.value is not None
    stream = [structs.replace(found, value=found.value.replace(b"red", b"\xff"))]
    assert decided(Batch, stream, {}, 1)[1][5] == {"INVALID_ENVELOPE": 1}


@pytest.mark.parametrize(
    "context, reason", [({"max_event_bytes": 1500}, ["TOO_LARGE"]), ({"payload_threshold": 30}, [])]
)
def test_large_events_are_the_same(context: dict[str, Any], reason: list[str]) -> None:
    stream = [note({"texts": [300 * "long"]})]
    found = decided(Batch, stream, context, 1)
    assert found == decided(Contract, stream, context, 1)
    assert list(found[1][5]) == reason


@pytest.mark.parametrize("how", ["", "reject", "later", "raise", "foreign", "fold", "unread"])
@pytest.mark.parametrize("make", [Batch, Contract])
def test_a_batch_is_no_cycle(make: type[Batch], how: str) -> None:
    """Owners do not collect garbage while they decide, so a batch must be freed with its last reference."""
    deferrals = Deferrals(topic="T", partition=3)
    batch = make(NOTES, BatchContext(3, lambda _: None, lambda *_: None, lambda: 6000, deferrals=deferrals))
    batch.decide_piece([note({"texts": ["x"], "how": how})])
    gone = weakref.ref(batch)
    gc.disable()
    try:
        del batch
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("how", ["memory", "fold-memory"])
def test_process_error_leaves_the_batch_undecided(how: str) -> None:
    stream = [note({"how": how})]
    assert decided(Batch, stream, {}, 1) == decided(Contract, stream, {}, 1)
    assert asked == [Note(how=how)]
