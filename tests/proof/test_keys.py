"""Each rule of keys and erasures, shown by a fault that breaks it."""

import pytest

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.scope import PersonalScope, check_shape
from tests.proof.encrypted_histories import (
    KEYRING,
    KEYS_TOPIC,
    EncryptedHistory,
    add,
    encrypt_event,
    erase,
    key,
)
from tests.proof.violations import only_violation, violation_texts
from tests.support.foreign_records import changed_record


@pytest.fixture
def history() -> EncryptedHistory:
    """Events 0 and 1 of `a` under key 1, deleted at 2, event 4 of `b` under key 2, event 5 of `a` under key 3."""
    return EncryptedHistory([add(2, "Ann"), erase(), add(1, "Bob", "b"), add(1, "Cem"), add(1, "")])


@pytest.mark.covers("verifiable")
def test_erased_history_is_clean(history: EncryptedHistory) -> None:
    assert [record.offset for record in history.events] == [0, 1, 2, 4, 5, 6]
    assert violation_texts(history) == []
    assert violation_texts(history, personal=PersonalScope(), on_disk=True) == []
    assert violation_texts(history, personal=PersonalScope(), decode_event=check_shape) == []


def encrypt_again(history: EncryptedHistory, index: int, key_number: int) -> Record:
    """Return the event at a list index, encrypted with another key."""
    event = changed_record(history.events[index], {"who": "Eve"})
    return encrypt_event(event, key(key_number))


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize(
    ("index", "key_number", "text"),
    [
        (1, 9, f"events 1 names key {key(9).kid}, but an event of the same command key {key(1).kid}"),
        (4, 1, f"events 5 is encrypted with key {key(1).kid} of 'a', which was deleted before"),
    ],
)
def test_event_under_another_key_is_found(
    history: EncryptedHistory, index: int, key_number: int, text: str
) -> None:
    history.events[index] = encrypt_again(history, index, key_number)
    assert text in violation_texts(history, personal=PersonalScope())


def test_one_key_between_two_ends() -> None:
    history = EncryptedHistory([add(1, "Ann"), add(1, "Ann")])
    history.events[1] = encrypt_again(history, 1, 9)
    texts = violation_texts(history)
    expected = f"events 1 is encrypted with key {key(9).kid} of 'a', but key {key(1).kid} is active"
    assert f"{expected}: no event has deleted it" in texts


def test_erasure_of_another_key_is_found(history: EncryptedHistory) -> None:
    history.events[2] = changed_record(history.events[2], {"key": key(9).kid})
    expected = (
        f"events 2 deletes key {key(9).kid} of 'a', but key {key(1).kid} is active: no event has deleted it"
    )
    assert expected in violation_texts(history)


def test_key_ends_once(history: EncryptedHistory) -> None:
    history_with_two_erasures = EncryptedHistory([add(1, "Ann"), erase(), add(1, "Bob"), erase()])
    assert violation_texts(history_with_two_erasures) == []
    history_with_two_erasures.events[3] = changed_record(
        history_with_two_erasures.events[3], {"key": key(1).kid}
    )
    assert f"events 4 deletes key {key(1).kid} of 'a', which was deleted before" in violation_texts(
        history_with_two_erasures
    )


def test_key_of_deferred_command_ends() -> None:
    """No event needed the key."""
    history = EncryptedHistory([add(1, "Ann"), erase()])
    history.events[0] = changed_record(history.events[0], {"who": ""})
    assert violation_texts(history) == []


@pytest.mark.parametrize("kid", ["", "AAAA", "?", "A" * 12])
def test_erasure_of_invalid_key_is_found(history: EncryptedHistory, kid: str) -> None:
    history.events[2] = changed_record(history.events[2], {"key": kid})
    assert any(violation.startswith("events 2 cannot be read: ") for violation in violation_texts(history))


@pytest.mark.covers("verifiable")
def test_lost_key_is_a_violation(history: EncryptedHistory) -> None:
    del history.keys["b"]
    problem = f"names key {key(2).kid} of 'b', but the keys topic has no key: the key is lost, and it was not erased"
    assert (
        only_violation(history, personal=PersonalScope()) == f"events 4 {problem}; no command can restore it"
    )


def test_other_key_is_a_loss(history: EncryptedHistory) -> None:
    history.keys["b"] = KEYRING.wrap(KEYS_TOPIC, "b", key(9))
    assert (
        f"events 4 names key {key(2).kid} of 'b', but the keys topic has key {key(9).kid}"
        in only_violation(history)
    )


@pytest.mark.covers("verifiable")
def test_restored_key_is_found(history: EncryptedHistory) -> None:
    history.keys["a"] = KEYRING.wrap(KEYS_TOPIC, "a", key(1))
    expected = f"events 5 is after the deletion of key {key(1).kid} of 'a', which is in the keys topic again"
    assert only_violation(history, personal=PersonalScope()) == expected


def test_erasure_since_explains_the_loss(history: EncryptedHistory) -> None:
    del history.keys["b"]
    history.since = [changed_record(history.events[2], {"key": key(2).kid}, subject="b")]
    assert violation_texts(history) == []
    history.since = [changed_record(history.events[2], {"key": key(3).kid}, subject="b")]
    assert len(violation_texts(history)) == 1


def test_key_without_event_is_no_violation(history: EncryptedHistory) -> None:
    """A deferred command needed the key, and was cancelled."""
    history.keys["c"] = KEYRING.wrap(KEYS_TOPIC, "c", key(9))
    assert violation_texts(history) == []


def test_damaged_encrypted_value_is_found(history: EncryptedHistory) -> None:
    """Only a verification with the keyring finds the damage."""
    history.events[3] = encrypt_event(
        changed_record(history.events[3], {"who": "Bob"}), key(2), record_id="1/9/0"
    )
    assert (
        f"events 4 has a damaged value in 'who': it has the id of key {key(2).kid}, but this key does not decrypt it"
        in only_violation(history)
    )
    assert violation_texts(history, personal=PersonalScope()) == []


@pytest.mark.parametrize("text", ["", "AAAA", "?" * 60, 7])
def test_malformed_encrypted_value_is_found(history: EncryptedHistory, text: object) -> None:
    history.events[3] = changed_record(history.events[3], {"who": {"$sealed": text}})
    assert "events 4 cannot be read: " in only_violation(history)
    assert "events 4 cannot be read: " in only_violation(history, decode_event=check_shape)


def test_key_ends_only_by_an_erasure(history: EncryptedHistory) -> None:
    history.outcomes[1] = changed_record(history.outcomes[1], type="tally.Drop.accepted")
    expected = "outcomes 1 is tally.Drop.accepted, but its command has the deletion of a key"
    assert expected in violation_texts(history)


def test_unchanged_erase_has_no_key() -> None:
    history = EncryptedHistory([add(1, "Ann"), erase()])
    del history.events[1]
    history.outcomes[1] = changed_record(
        history.outcomes[1], {"status": "unchanged", "version": 1, "events": 0}, type="cqrs.Erase.unchanged"
    )
    assert f"outcomes 1 is unchanged, but key {key(1).kid} of 'a' is active" in violation_texts(history)


def test_erase_may_spare_a_later_key() -> None:
    assert (
        violation_texts(
            EncryptedHistory([add(1, "Ann"), erase(key=key(2)), erase(key=key(1)), add(1, "Ann")])
        )
        == []
    )


def test_erase_deletes_the_key_it_names() -> None:
    history = EncryptedHistory([add(1, "Ann"), erase(key=key(1))])
    history.commands[1] = changed_record(history.commands[1], {"key": key(2).kid})
    expected = f"outcomes 1 is accepted, but its command names key {key(2).kid}, not key {key(1).kid}"
    assert expected in violation_texts(history)


def test_sender_may_not_encrypt() -> None:
    history = EncryptedHistory([add(1, "Ann")])
    history.commands[0] = changed_record(history.commands[0], {"who": {"$sealed": "x"}})
    assert only_violation(history) == "outcomes 0 is accepted, but its sender has encrypted its command"
