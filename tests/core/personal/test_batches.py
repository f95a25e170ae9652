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
from cqrs_cli.core.personal.masking import mask
from cqrs_cli.core.personal.personal_fields import personal
from tests.core.personal.batches import ANN, PLAIN, context, erase, keys, kids, record, register, verdicts
from tests.core.personal.customer import CUSTOMER, Customer, Ordered, Registered, evolve


def test_events_open_at_their_place() -> None:
    done = decide_batch(CUSTOMER, [register(7)], context())
    (key,) = done.data_keys.values()
    assert key is not None
    event = read_event(done.events[0][0])
    assert not any(plain in value for plain in PLAIN for value, _, _ in done.events + done.outcomes)
    opened = decrypt_data(
        Registered, bytes(event.data), {key.kid: key}.get, ValueLocation("customer", "c", "0/7/0", "")
    )
    assert json.loads(opened) == {**ANN, "plan": "free"}
    assert done.states["c"].state == Customer("Ann Smith", "ann@home", "free")


def test_only_personal_values_need_a_key() -> None:
    nameless = record(0, "customer.Register", {"name": "", "plan": "free"})
    done = decide_batch(CUSTOMER, [nameless], context())
    assert verdicts(done) == ["accepted"] and done.data_keys == {}


def test_key_in_force_is_used() -> None:
    key = keys()()
    done = decide_batch(CUSTOMER, [register(0), register(1)], context(key))
    assert kids(done) == [key.kid] * 2 and done.data_keys == {}


def test_erase_ends_the_key_for_good() -> None:
    done = decide_batch(CUSTOMER, [register(0), erase(1)], context())
    first = kids(done)[0]
    assert kids(done) == [first, f"({first})"]
    assert done.data_keys == {"c": None} and done.states["c"].state == mask(Customer(plan="free"))
    again = decide_batch(CUSTOMER, [register(0), erase(1), register(2)], context())
    assert kids(again)[:2] == [first, f"({first})"] and kids(again)[2] != first
    assert again.data_keys["c"] is not None and again.data_keys["c"].kid == kids(again)[2]


def test_erase_without_a_key_is_unchanged() -> None:
    done = decide_batch(CUSTOMER, [erase(0), register(1), erase(2), erase(3)], context())
    assert verdicts(done) == ["unchanged", "accepted", "accepted", "unchanged"]


def test_erase_is_no_command_without_marks() -> None:
    plain = Aggregate.of("counter", counter.decider)
    done = decide_batch(plain, [record(0, "cqrs.Erase", {})], context())
    assert verdicts(done) == ["UNKNOWN_TYPE"]


@pytest.mark.parametrize(
    "data",
    [
        '{"name":{"$sealed":"AAAA"}}',
        '{"name":{"\\u0024sealed":"AAAA"}}',
        '{"name":"Ann","plan":{"$sealed":1}}',
    ],
)
@pytest.mark.parametrize("attributes", [{}, {"expirytime": "2999-01-01T00:00:00Z"}])
def test_senders_may_not_seal(data: str, attributes: dict[str, str]) -> None:
    sent = register(0, **attributes)
    assert sent.value is not None
    written = sent.value.replace(json.dumps(ANN).encode(), data.encode())
    assert data.encode() in written
    done = decide_batch(CUSTOMER, [replace(sent, value=written)], context())
    assert verdicts(done) == ["INVALID_PAYLOAD"] and done.data_keys == {}
    assert b"a member has the shape of a sealed value" in done.outcomes[0][0]


def test_lenient_commands_may_not_seal() -> None:
    """Members that the class does not know are checked, too."""

    class Note(cqrs.Command, forbid_unknown_fields=False):
        pass

    def decide(command: Note, state: Customer) -> list[Registered]:
        return []

    noted = Aggregate.of("customer", cqrs.Decider(decide, evolve, Customer()))
    done = decide_batch(noted, [record(0, "customer.Note", {"x": {"$sealed": "AAAA"}})], context())
    assert verdicts(done) == ["INVALID_PAYLOAD"]


@pytest.mark.parametrize("upcasts", [False, True])
@pytest.mark.parametrize(
    "annotation", [dict[str, str], Any, str | None, Annotated[str, personal], Annotated[Any, personal]]
)
def test_decide_may_not_seal(annotation: Any, upcasts: bool) -> None:
    """`decide` may not return encrypted values, even in untyped fields, and even if the class accepts such a value."""
    Noted = defstruct("Noted", [("what", annotation)], bases=(cqrs.Event,), frozen=True)

    class Note(cqrs.Command):
        pass

    def decide(command: Note, state: Customer) -> list[Noted]:  # type: ignore[valid-type]
        return [Noted({"$sealed": "A" * 40})]

    def fold(state: Customer, event: Noted) -> Customer:  # type: ignore[valid-type]
        return state

    def upcast(old: dict[str, Any]) -> cqrs.Event:
        return Noted(str(old["what"]))  # type: ignore[return-value]

    upcasters = {"Noted": upcast} if upcasts and annotation is not dict[str, str] else {}
    noted = Aggregate.of("customer", cqrs.Decider(decide, fold, Customer(), upcasters=upcasters))
    done = decide_batch(noted, [record(0, "customer.Note", {})], context())
    assert verdicts(done) == ["HANDLER_ERROR"] and not done.events


def test_payloads_are_summed_sealed() -> None:
    done = decide_batch(CUSTOMER, [register(0)], context(payload_threshold=10))
    ((reference, data),) = done.payloads.items()
    assert find_reference(done.events[0][0]) == reference == reference_to(data)
    assert has_encrypted_shape(data) and not any(plain in data for plain in PLAIN)


kinds = st.lists(
    st.tuples(st.sampled_from(["register", "order", "erase"]), st.sampled_from("ab")), max_size=12
)


def made(offset: int, kind: str, subject: str) -> Record:
    if kind == "erase":
        return erase(offset, subject)
    if kind == "register":
        return register(offset, subject)
    return record(offset, "customer.Order", {"street": ["Elm"], "amount": offset}, subject)


def folded(done: list[bytes]) -> dict[str, VersionedState]:
    """Fold all events without a key."""
    states: dict[str, VersionedState] = {}
    for value in done:
        event = read_event(value)
        states[event.subject] = fold_event(CUSTOMER, states.get(event.subject), event)
    return states


@given(kinds, st.integers(1, 5))
def test_cuts_make_no_difference(stream: list[tuple[str, str]], size: int) -> None:
    """Folding the events without a key gives the redacted states."""
    records = [made(offset, *one) for offset, one in enumerate(stream)]
    whole = decide_batch(CUSTOMER, records, context())
    batch, events, outcomes = Batch(CUSTOMER, context()), [], []
    for start in range(0, len(records), size):
        piece = batch.decide_piece(records[start : start + size])
        events += piece.events
        outcomes += piece.outcomes
    assert (events, outcomes) == (whole.events, whole.outcomes)
    assert {name: key and key.kid for name, key in batch.decisions.data_keys.items()} == {
        name: key and key.kid for name, key in whole.data_keys.items()
    }
    states = {name: mask(one.state) for name, one in folded([value for value, _, _ in events]).items()}
    assert states == {name: mask(one.state) for name, one in whole.states.items()}


def test_evolve_can_fail_the_erasure() -> None:
    """A failure in `evolve` fails the command, and its key stays."""

    def failing(customer: Customer, event: Registered | Ordered | cqrs.Erased) -> Customer:
        if isinstance(event, cqrs.Erased):
            raise RuntimeError(customer.plan)
        return evolve(customer, event)

    broken = Aggregate.of("customer", replace_fold(failing))
    done = decide_batch(broken, [register(0), erase(1), register(2)], context())
    assert verdicts(done) == ["accepted", "HANDLER_ERROR", "accepted"]
    assert len(set(kids(done))) == 1


def replace_fold(fold: Any) -> cqrs.Decider[Any, Any, Any]:
    from tests.core.personal.customer import decide

    return cqrs.Decider(decide, fold, Customer())
