"""Deferred commands with personal fields: encrypted while they wait, ended with their key, and violations of that."""

import json
from typing import Any

import pytest

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encrypted_data import encrypt_data
from cqrs_cli.core.personal.encryption import ValueLocation
from cqrs_cli.proof.documents import document_mask
from cqrs_cli.proof.fingerprints import fits_without_code
from cqrs_cli.proof.scope import PersonalScope, check_shape
from tests.proof.deferred.encrypted_command import Parked, later
from tests.proof.encrypted_histories import KEYS, RING, Add, erase, erased, key, says
from tests.proof.history import with_value
from tests.proof.violations import described, only
from tests.support.foreign_records import edited


def statuses(told: Parked) -> list[str]:
    read = [json.loads(one.value or b"")["data"] for one in told.outcomes]
    return [data.get("reason", data["status"]) for data in read]


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize(
    ("told", "said"),
    [
        (Parked(later("Ann")), ["NOT_YET", "accepted"]),
        (Parked(later("Ann"), is_said=False), ["NOT_YET"]),
        (Parked(later("Ann"), erase()), ["NOT_YET", "accepted", "ERASED"]),
        (Parked(later("Ann"), erase(), is_said=False), ["NOT_YET", "accepted"]),
        (
            Parked(later("Ann"), says(1, "Bob"), erase(), says(1, "Cem")),
            ["NOT_YET", "accepted", "accepted", "accepted", "ERASED"],
        ),
    ],
)
def test_sealed_commands_are_explained(told: Parked, said: list[str]) -> None:
    assert statuses(told) == said
    assert described(told) == []
    without_code = PersonalScope(None, document_mask(None))
    assert (
        described(told, personal=without_code, has_fingerprint=fits_without_code, decode_event=check_shape)
        == []
    )


def forged(record: Record, **data: Any) -> Record:
    return edited(record, data)


def test_erased_command_was_deferred() -> None:
    told = Parked(later("Ann"), says(1, "Bob"))
    told.outcomes[1] = forged(told.outcomes[1], status="rejected", reason="ERASED", events=0, version=0)
    assert "outcomes 1 is ERASED, and its command was never deferred" in described(told)


def test_erased_command_has_ended_key() -> None:
    told = Parked(later("Ann"))
    ended = {"status": "rejected", "reason": "ERASED", "events": 0, "version": 0}
    told.outcomes[1] = edited(told.outcomes[1], ended, type="tally.Add.rejected")
    told.events = []
    assert f"outcomes 1 is ERASED, and the key of its command has not ended: {key(1).kid}" in described(told)


def test_decided_command_has_its_key() -> None:
    """The command was decided with redacted values."""
    told = Parked(later("Ann"), erase(), says(1, "Cem"))
    told.outcomes[3] = edited(told.outcomes[3], {"reason": "BUSINESS_RULE", "code": "NO"})
    wanted = "outcomes 4 is BUSINESS_RULE, and the key of its command had ended: it is to be ERASED"
    assert only(told) == wanted


def test_commands_are_compared_masked() -> None:
    told = Parked(later("Ann"), is_said=False)
    assert b"Ann" in (told.commands[0].value or b"") and b"Ann" not in told.entry.command
    told.commands[0] = with_value(
        told.commands[0], (told.commands[0].value or b"").replace(b'"n": 1', b'"n": 2')
    )
    assert "deferred 0 holds another command than 0" in described(told)


def test_parked_command_keeps_the_key() -> None:
    told = Parked(later("Ann"), is_said=False)
    told.keys = {}
    what = f"names key {key(1).kid} of 'a', and the keys topic has no key: the key is lost, and it was not erased"
    assert only(told) == f"deferred 0 {what}; nothing heals that"


def test_erasure_of_parked_command_is_final() -> None:
    told = Parked(later("Ann"), erase(), is_said=False)
    told.keys = {"a": RING.wrap(KEYS, "a", key(1))}
    wanted = f"events 0 is behind the end of key {key(1).kid} of 'a', which is in the keys topic again"
    assert only(told) == wanted


def test_parked_command_has_the_key_in_force() -> None:
    told = Parked(later("Ann"), says(1, "Bob"), is_said=False)
    entry = json.loads(told.deferred[0].value or b"")
    place = ValueLocation("tally", "a", "command/c0", "")
    entry["command"]["data"] = json.loads(encrypt_data(Add, b'{"n":1,"who":"Ann"}', key(9), place))
    told.deferred[0] = with_value(told.deferred[0], encode_json(entry))
    assert (
        only(told) == f"deferred 0 is sealed with key {key(9).kid} of 'a', and key {key(1).kid} is in force"
    )
    told.since = [with_value(told.events[0], erased("a", key(1).kid))]
    assert described(told) == []


def test_command_said_again_has_its_key() -> None:
    told = Parked(later("Ann"), says(1, "Bob"))
    place = ValueLocation("tally", "a", "command/c0", "")
    said = json.loads(told.commands[-1].value or b"")
    said["data"] = json.loads(encrypt_data(Add, b'{"n":1,"who":"Ann"}', key(9), place))
    told.commands[-1] = with_value(told.commands[-1], json.dumps(said, separators=(",", ":")).encode())
    wanted = (
        f"outcomes 2 is of a command that is sealed with key {key(9).kid}, and key {key(1).kid} is in force"
    )
    assert only(told) == wanted


def test_said_again_command_has_two_keys() -> None:
    told = Parked(later("Ann"), is_said=False)
    entry = json.loads(told.deferred[0].value or b"")
    entry["command"]["data"]["n"] = json.loads(
        key(9).encrypt(b"1", ValueLocation("tally", "a", "command/c0", "n"))
    )
    told.deferred[0] = with_value(told.deferred[0], encode_json(entry))
    kids = " and ".join(sorted([key(1).kid, key(9).kid]))
    assert f"deferred 0 holds a command that is sealed with the keys {kids}" in described(told)
