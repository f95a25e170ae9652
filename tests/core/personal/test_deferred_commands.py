"""Deferred commands with personal fields: they are encrypted while they wait, and end with their key."""

import json

from msgspec.structs import replace

from cqrs_cli.core.batch_encryption import command_location
from cqrs_cli.core.context import Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.payload_reference import find_reference, reference_to
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encrypted_data import decrypt_data
from cqrs_cli.core.personal.encryption import KID_BYTES, SECRET_BYTES, DataKey, ValueLocation
from tests.core.personal.batches import ANN, AT, PLAIN, context, erase, register, verdicts
from tests.core.personal.customer import CUSTOMER, Customer


def parked_and_said(key: DataKey | None) -> tuple[Decisions, Record, DeferralTable]:
    """Return the decision that defers a command, its resubmitted record, and the entries."""
    done = decide_batch(CUSTOMER, [register(0, notbefore="2999-01-01T00:00:00Z")], context(key))
    (entry,) = done.deferral_changes.values()
    assert entry is not None and verdicts(done) == ["NOT_YET"]
    said = replace(entry, due=AT, resubmitted_offset=5, resubmitted_topic="T")
    return done, Record(5, AT, b"c", said.resubmission_document("0/0"), [*HEADERS]), DeferralTable([said])


def test_parked_commands_are_sealed() -> None:
    done, said, table = parked_and_said(None)
    (key,) = done.data_keys.values()
    assert said.value is not None and not any(plain in said.value for plain in PLAIN)
    found = decide_batch(CUSTOMER, [said], context(key, table))
    assert verdicts(found) == ["accepted"]
    assert found.states["c"].state == Customer("Ann Smith", "ann@home", "free")


def test_parked_command_ends_with_its_key() -> None:
    done, said, table = parked_and_said(None)
    (key,) = done.data_keys.values()
    erased = decide_batch(CUSTOMER, [erase(4), said], context(key, table))
    assert verdicts(erased) == ["accepted", "ERASED"]
    assert list(erased.deferral_changes.values()) == [None] and not erased.dead_letters
    other = DataKey.of_random(bytes(KID_BYTES + SECRET_BYTES))
    assert verdicts(decide_batch(CUSTOMER, [said], context(other, table))) == ["ERASED"]


def test_sealed_copy_without_entry_is_refused() -> None:
    done, said, _ = parked_and_said(None)
    (key,) = done.data_keys.values()
    copied = replace(said, value=(said.value or b"").replace(b',"deferredfrom":"0/0"', b""))
    assert verdicts(decide_batch(CUSTOMER, [copied], context(key, DeferralTable()))) == ["INVALID_PAYLOAD"]


def test_parked_payload_is_stored_anew() -> None:
    data = json.dumps(ANN, separators=(",", ":")).encode()
    given_ = reference_to(data)
    sent = register(0, notbefore="2999-01-01T00:00:00Z")
    members = json.loads(sent.value or b"") | given_.attributes("customer")
    value = json.dumps({**members, "data": None}).encode()
    done = decide_batch(CUSTOMER, [replace(sent, value=value)], context(payloads={given_: data}))
    (entry,) = done.deferral_changes.values()
    ((stored, sealed),) = done.payloads.items()
    (key,) = done.data_keys.values()
    assert entry is not None and key is not None and verdicts(done) == ["NOT_YET"]
    assert find_reference(entry.command) == stored == reference_to(sealed) != given_
    place = ValueLocation("customer", "c", command_location("id-0"), "")
    assert (
        json.loads(decrypt_data(CUSTOMER.commands["customer.Register"], sealed, {key.kid: key}.get, place))
        == ANN
    )
