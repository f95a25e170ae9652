"""Batches of an aggregate with personal fields: written values are encrypted, and `Erase` ends their key."""

import json
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import defstruct
from msgspec.structs import replace

import cqrs_cli as cqrs
from aggregates import counter
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.decide import Batch, decide_batch
from cqrs_cli.core.fold import VersionedState, fold_event
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.payload_reference import find_reference, reference_to
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encrypted_data import decrypt_data, has_encrypted_shape
from cqrs_cli.core.personal.encryption import ValueLocation
from cqrs_cli.core.personal.message_redaction import redact_message
from cqrs_cli.core.personal.personal_fields import personal
from tests.core.personal.batches import (
    ANN,
    PLAIN_TEXTS,
    context,
    erase,
    event_key_ids,
    key_generator,
    record,
    register,
    verdicts,
)
from tests.core.personal.customer import CUSTOMER, Customer, Ordered, Registered, evolve


def test_events_are_decrypted_at_their_location() -> None:
    decisions = decide_batch(CUSTOMER, [register(7)], context())
    (key,) = decisions.data_keys.values()
    assert key is not None
    event = read_event(decisions.events[0][0])
    assert not any(
        plain in value for plain in PLAIN_TEXTS for value, _, _ in decisions.events + decisions.outcomes
    )
    decrypted = decrypt_data(
        Registered, bytes(event.data), {key.kid: key}.get, ValueLocation("customer", "c", "0/7/0", "")
    )
    assert json.loads(decrypted) == {**ANN, "plan": "free"}
    assert decisions.states["c"].state == Customer("Ann Smith", "ann@home", "free")


def test_commands_without_personal_values_need_no_key() -> None:
    nameless = record(0, "customer.Register", {"name": "", "plan": "free"})
    decisions = decide_batch(CUSTOMER, [nameless], context())
    assert verdicts(decisions) == ["accepted"] and decisions.data_keys == {}


def test_current_key_is_used() -> None:
    key = key_generator()()
    decisions = decide_batch(CUSTOMER, [register(0), register(1)], context(key))
    assert event_key_ids(decisions) == [key.kid] * 2 and decisions.data_keys == {}


def test_erase_deletes_the_key_permanently() -> None:
    decisions = decide_batch(CUSTOMER, [register(0), erase(1)], context())
    first = event_key_ids(decisions)[0]
    assert event_key_ids(decisions) == [first, f"({first})"]
    assert decisions.data_keys == {"c": None} and decisions.states["c"].state == redact_message(
        Customer(plan="free")
    )
    decisions = decide_batch(CUSTOMER, [register(0), erase(1), register(2)], context())
    assert event_key_ids(decisions)[:2] == [first, f"({first})"] and event_key_ids(decisions)[2] != first
    assert (
        decisions.data_keys["c"] is not None and decisions.data_keys["c"].kid == event_key_ids(decisions)[2]
    )


def test_erase_without_a_key_is_unchanged() -> None:
    decisions = decide_batch(CUSTOMER, [erase(0), register(1), erase(2), erase(3)], context())
    assert verdicts(decisions) == ["unchanged", "accepted", "accepted", "unchanged"]


def test_erase_needs_personal_fields() -> None:
    counter_aggregate = Aggregate.of("counter", counter.decider)
    decisions = decide_batch(counter_aggregate, [record(0, "cqrs.Erase", {})], context())
    assert verdicts(decisions) == ["UNKNOWN_TYPE"]


@pytest.mark.parametrize(
    "data",
    [
        '{"name":{"$sealed":"AAAA"}}',
        '{"name":{"\\u0024sealed":"AAAA"}}',
        '{"name":"Ann","plan":{"$sealed":1}}',
    ],
)
@pytest.mark.parametrize("attributes", [{}, {"expirytime": "2999-01-01T00:00:00Z"}])
def test_senders_may_not_encrypt(data: str, attributes: dict[str, str]) -> None:
    command_record = register(0, **attributes)
    assert command_record.value is not None
    value = command_record.value.replace(json.dumps(ANN).encode(), data.encode())
    assert data.encode() in value
    decisions = decide_batch(CUSTOMER, [replace(command_record, value=value)], context())
    assert verdicts(decisions) == ["INVALID_PAYLOAD"] and decisions.data_keys == {}
    assert b"a member has the shape of an encrypted value" in decisions.outcomes[0][0]


def test_unknown_members_may_not_be_encrypted() -> None:
    """Members that the class does not know are checked, too."""

    class Note(cqrs.Command, forbid_unknown_fields=False):
        pass

    def decide(command: Note, state: Customer) -> list[Registered]:
        return []

    aggregate = Aggregate.of("customer", cqrs.Decider(decide, evolve, Customer()))
    decisions = decide_batch(aggregate, [record(0, "customer.Note", {"x": {"$sealed": "AAAA"}})], context())
    assert verdicts(decisions) == ["INVALID_PAYLOAD"]


@pytest.mark.parametrize("has_upcaster", [False, True])
@pytest.mark.parametrize(
    "annotation", [dict[str, str], Any, str | None, Annotated[str, personal], Annotated[Any, personal]]
)
def test_decide_may_not_return_encrypted_values(annotation: Any, has_upcaster: bool) -> None:
    """`decide` may not return encrypted values, even in untyped fields, and even if the class accepts such a value."""
    NotedEvent = defstruct("Noted", [("what", annotation)], bases=(cqrs.Event,), frozen=True)

    class Note(cqrs.Command):
        pass

    def decide(command: Note, state: Customer) -> list[NotedEvent]:  # type: ignore[valid-type]
        return [NotedEvent({"$sealed": "A" * 40})]

    def fold(state: Customer, event: NotedEvent) -> Customer:  # type: ignore[valid-type]
        return state

    def upcast(old: dict[str, Any]) -> cqrs.Event:
        return NotedEvent(str(old["what"]))  # type: ignore[return-value]

    upcasters = {"Noted": upcast} if has_upcaster and annotation is not dict[str, str] else {}
    aggregate = Aggregate.of("customer", cqrs.Decider(decide, fold, Customer(), upcasters=upcasters))
    decisions = decide_batch(aggregate, [record(0, "customer.Note", {})], context())
    assert verdicts(decisions) == ["HANDLER_ERROR"] and not decisions.events


def test_hashes_of_payloads_are_of_encrypted_data() -> None:
    decisions = decide_batch(CUSTOMER, [register(0)], context(payload_threshold=10))
    ((reference, data),) = decisions.payloads.items()
    assert find_reference(decisions.events[0][0]) == reference == reference_to(data)
    assert has_encrypted_shape(data) and not any(plain in data for plain in PLAIN_TEXTS)


command_lists = st.lists(
    st.tuples(st.sampled_from(["register", "order", "erase"]), st.sampled_from("ab")), max_size=12
)


def record_of(offset: int, command_name: str, subject: str) -> Record:
    if command_name == "erase":
        return erase(offset, subject)
    if command_name == "register":
        return register(offset, subject)
    return record(offset, "customer.Order", {"street": ["Elm"], "amount": offset}, subject)


def fold_events(values: list[bytes]) -> dict[str, VersionedState]:
    """Fold all events without a key."""
    states: dict[str, VersionedState] = {}
    for value in values:
        event = read_event(value)
        states[event.subject] = fold_event(CUSTOMER, states.get(event.subject), event)
    return states


@given(command_lists, st.integers(1, 5))
def test_pieces_give_the_decisions_of_the_batch(stream: list[tuple[str, str]], size: int) -> None:
    """Folding the events without a key gives the redacted states."""
    records = [record_of(offset, *step) for offset, step in enumerate(stream)]
    whole_batch = decide_batch(CUSTOMER, records, context())
    batch, events, outcomes = Batch(CUSTOMER, context()), [], []
    for start in range(0, len(records), size):
        piece = batch.decide_piece(records[start : start + size])
        events += piece.events
        outcomes += piece.outcomes
    assert (events, outcomes) == (whole_batch.events, whole_batch.outcomes)
    assert {name: key and key.kid for name, key in batch.decisions.data_keys.items()} == {
        name: key and key.kid for name, key in whole_batch.data_keys.items()
    }
    states = {
        name: redact_message(versioned.state)
        for name, versioned in fold_events([value for value, _, _ in events]).items()
    }
    assert states == {name: redact_message(versioned.state) for name, versioned in whole_batch.states.items()}


def test_evolve_can_fail_the_erasure() -> None:
    """A failure in `evolve` fails the command, and its key stays."""

    def evolve_raising(customer: Customer, event: Registered | Ordered | cqrs.Erased) -> Customer:
        if isinstance(event, cqrs.Erased):
            raise RuntimeError(customer.plan)
        return evolve(customer, event)

    aggregate = Aggregate.of("customer", decider_with(evolve_raising))
    decisions = decide_batch(aggregate, [register(0), erase(1), register(2)], context())
    assert verdicts(decisions) == ["accepted", "HANDLER_ERROR", "accepted"]
    assert len(set(event_key_ids(decisions))) == 1


def decider_with(evolve: Any) -> cqrs.Decider[Any, Any, Any]:
    from tests.core.personal.customer import decide

    return cqrs.Decider(decide, evolve, Customer())
