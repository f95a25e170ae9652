"""Deferred commands with personal fields are encrypted while they wait, and rejected after their key was deleted."""

import json
from typing import Any

import pytest

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encrypted_data import encrypt_data
from cqrs_cli.core.personal.encryption import ValueLocation
from cqrs_cli.proof.documents import document_redactor
from cqrs_cli.proof.fingerprints import fits_without_code
from cqrs_cli.proof.scope import PersonalScope, check_shape
from tests.proof.deferred.encrypted_command import DeferredHistory, deferred_command
from tests.proof.encrypted_histories import KEYRING, KEYS_TOPIC, Add, add, erase, erased_value, key
from tests.proof.history import with_value
from tests.proof.violations import only_violation, violation_texts
from tests.support.foreign_records import changed_record


def statuses(history: DeferredHistory) -> list[str]:
    data_of_outcomes = [json.loads(outcome.value or b"")["data"] for outcome in history.outcomes]
    return [data.get("reason", data["status"]) for data in data_of_outcomes]


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (DeferredHistory(deferred_command("Ann")), ["NOT_YET", "accepted"]),
        (DeferredHistory(deferred_command("Ann"), is_resubmitted=False), ["NOT_YET"]),
        (DeferredHistory(deferred_command("Ann"), erase()), ["NOT_YET", "accepted", "ERASED"]),
        (DeferredHistory(deferred_command("Ann"), erase(), is_resubmitted=False), ["NOT_YET", "accepted"]),
        (
            DeferredHistory(deferred_command("Ann"), add(1, "Bob"), erase(), add(1, "Cem")),
            ["NOT_YET", "accepted", "accepted", "accepted", "ERASED"],
        ),
    ],
)
def test_encrypted_deferred_commands_are_clean(history: DeferredHistory, expected: list[str]) -> None:
    assert statuses(history) == expected
    assert violation_texts(history) == []
    scope_without_code = PersonalScope(None, document_redactor(None))
    assert (
        violation_texts(
            history, personal=scope_without_code, fits_command=fits_without_code, decode_event=check_shape
        )
        == []
    )


def with_data(record: Record, **data: Any) -> Record:
    return changed_record(record, data)


def test_erased_command_was_deferred() -> None:
    history = DeferredHistory(deferred_command("Ann"), add(1, "Bob"))
    history.outcomes[1] = with_data(
        history.outcomes[1], status="rejected", reason="ERASED", events=0, version=0
    )
    assert "outcomes 1 is ERASED, but its command was never deferred" in violation_texts(history)


def test_erased_command_has_deleted_key() -> None:
    history = DeferredHistory(deferred_command("Ann"))
    rejected = {"status": "rejected", "reason": "ERASED", "events": 0, "version": 0}
    history.outcomes[1] = changed_record(history.outcomes[1], rejected, type="tally.Add.rejected")
    history.events = []
    assert (
        f"outcomes 1 is ERASED, but the key of its command was not deleted: {key(1).kid}"
        in violation_texts(history)
    )


def test_decided_command_has_its_key() -> None:
    """The command was decided with redacted values."""
    history = DeferredHistory(deferred_command("Ann"), erase(), add(1, "Cem"))
    history.outcomes[3] = changed_record(history.outcomes[3], {"reason": "BUSINESS_RULE", "code": "NO"})
    expected = "outcomes 4 is BUSINESS_RULE, but the key of its command was deleted: it must be ERASED"
    assert only_violation(history) == expected


def test_commands_are_compared_redacted() -> None:
    history = DeferredHistory(deferred_command("Ann"), is_resubmitted=False)
    assert b"Ann" in (history.commands[0].value or b"") and b"Ann" not in history.entry.command
    history.commands[0] = with_value(
        history.commands[0], (history.commands[0].value or b"").replace(b'"n": 1', b'"n": 2')
    )
    assert "deferred 0 holds another command than 0" in violation_texts(history)


def test_deferred_command_needs_its_key() -> None:
    history = DeferredHistory(deferred_command("Ann"), is_resubmitted=False)
    history.keys = {}
    problem = f"names key {key(1).kid} of 'a', but the keys topic has no key: the key is lost, and it was not erased"
    assert only_violation(history) == f"deferred 0 {problem}; no command can restore it"


def test_erasure_of_deferred_command_is_final() -> None:
    history = DeferredHistory(deferred_command("Ann"), erase(), is_resubmitted=False)
    history.keys = {"a": KEYRING.wrap(KEYS_TOPIC, "a", key(1))}
    expected = f"events 0 is after the deletion of key {key(1).kid} of 'a', which is in the keys topic again"
    assert only_violation(history) == expected


def test_deferred_command_is_under_current_key() -> None:
    history = DeferredHistory(deferred_command("Ann"), add(1, "Bob"), is_resubmitted=False)
    entry = json.loads(history.deferred[0].value or b"")
    location = ValueLocation("tally", "a", "command/c0", "")
    entry["command"]["data"] = json.loads(encrypt_data(Add, b'{"n":1,"who":"Ann"}', key(9), location))
    history.deferred[0] = with_value(history.deferred[0], encode_json(entry))
    assert (
        only_violation(history)
        == f"deferred 0 is encrypted with key {key(9).kid} of 'a', but key {key(1).kid} is active"
    )
    history.since = [with_value(history.events[0], erased_value("a", key(1).kid))]
    assert violation_texts(history) == []


def test_resubmitted_command_has_its_key() -> None:
    history = DeferredHistory(deferred_command("Ann"), add(1, "Bob"))
    location = ValueLocation("tally", "a", "command/c0", "")
    expected = json.loads(history.commands[-1].value or b"")
    expected["data"] = json.loads(encrypt_data(Add, b'{"n":1,"who":"Ann"}', key(9), location))
    history.commands[-1] = with_value(
        history.commands[-1], json.dumps(expected, separators=(",", ":")).encode()
    )
    expected = (
        f"outcomes 2 is of a command that is encrypted with key {key(9).kid}, but key {key(1).kid} is active"
    )
    assert only_violation(history) == expected


def test_entry_under_two_keys_is_found() -> None:
    history = DeferredHistory(deferred_command("Ann"), is_resubmitted=False)
    entry = json.loads(history.deferred[0].value or b"")
    entry["command"]["data"]["n"] = json.loads(
        key(9).encrypt(b"1", ValueLocation("tally", "a", "command/c0", "n"))
    )
    history.deferred[0] = with_value(history.deferred[0], encode_json(entry))
    key_ids = " and ".join(sorted([key(1).kid, key(9).kid]))
    assert f"deferred 0 holds a command that is encrypted with the keys {key_ids}" in violation_texts(history)
