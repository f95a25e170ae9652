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
from tests.core.notes import NOTES, TRACE, Note, contexts, decided_commands, note, records


class GeneralPathBatch(Batch):
    """A batch without the fast path."""

    def __init__(self, aggregate: Aggregate, context: BatchContext) -> None:
        super().__init__(aggregate, context)
        self._fast_path = lambda *_: None


def decide_all(batch_class: type[Batch], stream: list[Record], context: dict[str, Any], size: int) -> Any:
    """Return all results of a batch, decided in pieces, and the calls of `decide`."""
    remembered = context.get("remembered", {})
    context = {
        "dedup_entry_of": lambda *ids: remembered.get(ids),
        "greatest_id": lambda: max((command_id for _, command_id in remembered), default=""),
        "deferrals": Deferrals(topic_id="T", partition=3),
        **{name: value for name, value in context.items() if name != "remembered"},
    }
    batch = batch_class(NOTES, BatchContext(3, lambda _: None, now=lambda: 6000, **context))
    decided_commands.clear()
    results: list[Any] = []
    try:
        for start in range(0, len(stream), size):
            decisions = batch.decide_piece(stream[start : start + size])
            results += [
                decisions.events,
                decisions.outcomes,
                decisions.dead_letters,
                decisions.payloads,
                batch.event_bytes,
            ]
    except DecisionInterrupted as interruption:
        return interruption.offset, interruption.decided_count, str(interruption), list(decided_commands)
    return results, comparable_results(batch.decisions), list(decided_commands)


def comparable_results(decisions: Decisions) -> list[Any]:
    batch_results = [decisions.states, decisions.dedup_entries, decisions.deferral_changes, decisions.clock]
    return [*batch_results, decisions.counts, decisions.reason_counts, sorted(decisions.tracebacks)]


@pytest.mark.covers("decided-once", "no-lost-update")
@settings(max_examples=400)
@given(st.lists(records(), max_size=12), contexts, st.integers(1, 12))
def test_both_paths_give_the_same(stream: list[Record], context: dict[str, Any], size: int) -> None:
    """The fast path and the general path give the same records, and call `decide` with the same arguments."""
    numbered = [
        Record(n, record.timestamp, record.key, record.value, record.headers)
        for n, record in enumerate(stream)
    ]
    context = {"topic": "notes.commands", "dedup_window": 1000, **context}
    assert decide_all(Batch, numbered, context, size) == decide_all(GeneralPathBatch, numbered, context, size)


@pytest.mark.covers("decided-once")
@pytest.mark.parametrize("size", [1, 2])
def test_deferred_command_has_one_decision(size: int) -> None:
    """The repetition is in the same piece as the first record, or in the next piece."""
    stream = [note({"mode": "later"}), note({"mode": "later"})]
    fast_path = decide_all(Batch, stream, {}, size)
    assert fast_path == decide_all(GeneralPathBatch, stream, {}, size)
    assert (fast_path[1][4]["deferred"], fast_path[1][4]["duplicate"], len(decided_commands)) == (1, 1, 1)


FAST_PATH_COMMANDS: list[tuple[list[str], dict[str, Any]]] = [
    (["x"], {}),
    (["x", "y", "z"], {"expectedversion": "none"}),
    (['é "\\\n😀'], {"expectedversion": 0}),
    (["x"], {"correlationid": "c", "causationid": "e", "time": "2026-11-22T01:02:03Z"}),
    (["x", "y"], {"traceparent": TRACE, "tracestate": "a=b"}),
    (["x"], {"datacontenttype": "application/json", "team": "rød"}),
    (["x"], {"id": "ö-1", "correlationid": "ö"}),
]


@pytest.mark.parametrize("ascii", [True, False])
@pytest.mark.parametrize("texts, attributes", FAST_PATH_COMMANDS)
def test_ordinary_commands_take_the_fast_path(
    texts: list[str], attributes: dict[str, Any], ascii: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands have one event or several, with letters beyond ASCII, escaped or not."""
    stream = [note({"texts": texts}, ascii=ascii, **attributes)]
    general_path = decide_all(GeneralPathBatch, stream, {}, 1)
    monkeypatch.delattr(Batch, "_set_fingerprint")
    assert decide_all(Batch, stream, {}, 1) == general_path
    assert general_path[1][4]["accepted"] == 1


@pytest.mark.parametrize("text", ['"', "\\", "\n", "\x7f"])
@pytest.mark.parametrize("name", ["id", "subject", "correlationid", "tracestate"])
def test_texts_with_escapes_are_escaped(name: str, text: str) -> None:
    attributes: dict[str, Any] = {"traceparent": TRACE, name: text}
    command_record = note({"texts": ["x"]}, **attributes)
    stream = [structs.replace(command_record, key=text.encode())] if name == "subject" else [command_record]
    general_path = decide_all(GeneralPathBatch, stream, {}, 1)
    assert decide_all(Batch, stream, {}, 1) == general_path
    assert general_path[1][4]["accepted"] == 1


def test_bytes_that_are_no_text_are_refused() -> None:
    command_record = note({"texts": ["x"]}, team="red")
    assert command_record.value is not None
    stream = [structs.replace(command_record, value=command_record.value.replace(b"red", b"\xff"))]
    assert decide_all(Batch, stream, {}, 1)[1][5] == {"INVALID_ENVELOPE": 1}


@pytest.mark.parametrize(
    "context, reason", [({"max_event_bytes": 1500}, ["TOO_LARGE"]), ({"payload_threshold": 30}, [])]
)
def test_both_paths_limit_large_events(context: dict[str, Any], reason: list[str]) -> None:
    stream = [note({"texts": [300 * "long"]})]
    fast_path = decide_all(Batch, stream, context, 1)
    assert fast_path == decide_all(GeneralPathBatch, stream, context, 1)
    assert list(fast_path[1][5]) == reason


@pytest.mark.parametrize("mode", ["", "reject", "later", "raise", "foreign", "fold", "unread"])
@pytest.mark.parametrize("batch_class", [Batch, GeneralPathBatch])
def test_batch_has_no_reference_cycle(batch_class: type[Batch], mode: str) -> None:
    """Owners do not collect garbage while they decide, so a batch must be freed with its last reference."""
    deferrals = Deferrals(topic_id="T", partition=3)
    batch = batch_class(
        NOTES, BatchContext(3, lambda _: None, lambda *_: None, lambda: 6000, deferrals=deferrals)
    )
    batch.decide_piece([note({"texts": ["x"], "mode": mode})])
    reference = weakref.ref(batch)
    gc.disable()
    try:
        del batch
        assert reference() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("mode", ["memory", "fold-memory"])
def test_process_error_leaves_the_batch_undecided(mode: str) -> None:
    stream = [note({"mode": mode})]
    assert decide_all(Batch, stream, {}, 1) == decide_all(GeneralPathBatch, stream, {}, 1)
    assert decided_commands == [Note(mode=mode)]
