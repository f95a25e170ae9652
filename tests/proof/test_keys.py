"""Each rule of keys and erasures, shown by a fault that breaks it."""

import pytest

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.scope import PersonalScope, check_shape
from tests.proof.encrypted_histories import KEYS, RING, Sealed, erase, key, says, sealed
from tests.proof.violations import described, only
from tests.support.foreign_records import edited


@pytest.fixture
def told() -> Sealed:
    """Events 0 and 1 of `a` under key 1, its end at 2, event 4 of `b` under key 2, event 5 of `a` under key 3."""
    return Sealed([says(2, "Ann"), erase(), says(1, "Bob", "b"), says(1, "Cem"), says(1, "")])


@pytest.mark.covers("verifiable")
def test_erased_history_is_clean(told: Sealed) -> None:
    assert [record.offset for record in told.events] == [0, 1, 2, 4, 5, 6]
    assert described(told) == []
    assert described(told, personal=PersonalScope(), on_disk=True) == []
    assert described(told, personal=PersonalScope(), decode_event=check_shape) == []


def resealed(told: Sealed, at: int, by: int) -> Record:
    """Return the event at a list index, encrypted with another key."""
    plain = edited(told.events[at], {"who": "Eve"})
    return sealed(plain, key(by))


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize(
    ("at", "by", "found"),
    [
        (1, 9, f"events 1 names key {key(9).kid}, and an event of the same command key {key(1).kid}"),
        (4, 1, f"events 5 is sealed with key {key(1).kid} of 'a', which had ended before"),
    ],
)
def test_seal_of_another_key(told: Sealed, at: int, by: int, found: str) -> None:
    told.events[at] = resealed(told, at, by)
    assert found in described(told, personal=PersonalScope())


def test_one_key_between_two_ends() -> None:
    told = Sealed([says(1, "Ann"), says(1, "Ann")])
    told.events[1] = resealed(told, 1, 9)
    wanted = f"events 1 is sealed with key {key(9).kid} of 'a', and key {key(1).kid} is in force: no event has ended it"
    assert wanted in described(told)


def test_end_of_another_key(told: Sealed) -> None:
    told.events[2] = edited(told.events[2], {"key": key(9).kid})
    wanted = f"events 2 ends key {key(9).kid} of 'a', and key {key(1).kid} is in force: no event has ended it"
    assert wanted in described(told)


def test_key_ends_once(told: Sealed) -> None:
    again = Sealed([says(1, "Ann"), erase(), says(1, "Bob"), erase()])
    assert described(again) == []
    again.events[3] = edited(again.events[3], {"key": key(1).kid})
    assert f"events 4 ends key {key(1).kid} of 'a', which had ended before" in described(again)


def test_key_of_parked_command_ends() -> None:
    """No event needed the key."""
    told = Sealed([says(1, "Ann"), erase()])
    told.events[0] = edited(told.events[0], {"who": ""})
    assert described(told) == []


@pytest.mark.parametrize("kid", ["", "AAAA", "?", "A" * 12])
def test_end_of_no_key(told: Sealed, kid: str) -> None:
    told.events[2] = edited(told.events[2], {"key": kid})
    assert any(one.startswith("events 2 cannot be read: ") for one in described(told))


@pytest.mark.covers("verifiable")
def test_lost_key_is_told(told: Sealed) -> None:
    del told.keys["b"]
    what = f"names key {key(2).kid} of 'b', and the keys topic has no key: the key is lost, and it was not erased"
    assert only(told, personal=PersonalScope()) == f"events 4 {what}; nothing heals that"


def test_other_key_is_a_loss(told: Sealed) -> None:
    told.keys["b"] = RING.wrap(KEYS, "b", key(9))
    assert f"events 4 names key {key(2).kid} of 'b', and the keys topic has key {key(9).kid}" in only(told)


@pytest.mark.covers("verifiable")
def test_key_that_came_back(told: Sealed) -> None:
    told.keys["a"] = RING.wrap(KEYS, "a", key(1))
    wanted = f"events 5 is behind the end of key {key(1).kid} of 'a', which is in the keys topic again"
    assert only(told, personal=PersonalScope()) == wanted


def test_erasure_since_explains_the_loss(told: Sealed) -> None:
    del told.keys["b"]
    told.since = [edited(told.events[2], {"key": key(2).kid}, subject="b")]
    assert described(told) == []
    told.since = [edited(told.events[2], {"key": key(3).kid}, subject="b")]
    assert len(described(told)) == 1


def test_key_without_event_is_none_of_ours(told: Sealed) -> None:
    """A deferred command needed the key, and was cancelled."""
    told.keys["c"] = RING.wrap(KEYS, "c", key(9))
    assert described(told) == []


def test_damaged_seal_is_told(told: Sealed) -> None:
    """Only a verification with the keyring finds the damage."""
    told.events[3] = sealed(edited(told.events[3], {"who": "Bob"}), key(2), place="1/9/0")
    assert "events 4 has a damaged value in 'who': it does not open" in only(told)
    assert described(told, personal=PersonalScope()) == []


@pytest.mark.parametrize("text", ["", "AAAA", "?" * 60, 7])
def test_seal_without_shape(told: Sealed, text: object) -> None:
    told.events[3] = edited(told.events[3], {"who": {"$sealed": text}})
    assert "events 4 cannot be read: " in only(told)
    assert "events 4 cannot be read: " in only(told, decode_event=check_shape)


def test_end_of_key_is_of_its_command(told: Sealed) -> None:
    told.outcomes[1] = edited(told.outcomes[1], type="tally.Drop.accepted")
    wanted = "outcomes 1 is tally.Drop.accepted, and its command has the end of a key"
    assert wanted in described(told)


def test_unchanged_erase_has_no_key() -> None:
    told = Sealed([says(1, "Ann"), erase()])
    del told.events[1]
    told.outcomes[1] = edited(
        told.outcomes[1], {"status": "unchanged", "version": 1, "events": 0}, type="cqrs.Erase.unchanged"
    )
    assert f"outcomes 1 is unchanged, and key {key(1).kid} of 'a' is in force" in described(told)


def test_erase_may_spare_a_later_key() -> None:
    assert described(Sealed([says(1, "Ann"), erase(key=key(2)), erase(key=key(1)), says(1, "Ann")])) == []


def test_erase_deletes_the_key_it_names() -> None:
    told = Sealed([says(1, "Ann"), erase(key=key(1))])
    told.commands[1] = edited(told.commands[1], {"key": key(2).kid})
    wanted = f"outcomes 1 is accepted, and its command names key {key(2).kid}, not key {key(1).kid}"
    assert wanted in described(told)


def test_sender_may_not_seal() -> None:
    told = Sealed([says(1, "Ann")])
    told.commands[0] = edited(told.commands[0], {"who": {"$sealed": "x"}})
    assert only(told) == "outcomes 0 is accepted, and its sender has sealed its command"
