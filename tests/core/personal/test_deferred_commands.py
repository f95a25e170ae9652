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
from tests.core.personal.batches import ANN, PLAIN_TEXTS, TIMESTAMP, context, erase, register, verdicts
from tests.core.personal.customer import CUSTOMER, Customer


def defer_and_resubmit(key: DataKey | None) -> tuple[Decisions, Record, DeferralTable]:
    """Return the decisions that defer a command, the command's resubmitted record, and the entries."""
    decisions = decide_batch(CUSTOMER, [register(0, notbefore="2999-01-01T00:00:00Z")], context(key))
    (entry,) = decisions.deferral_changes.values()
    assert entry is not None and verdicts(decisions) == ["NOT_YET"]
    resubmitted_entry = replace(entry, due=TIMESTAMP, resubmitted_offset=5, resubmitted_topic_id="T")
    return (
        decisions,
        Record(5, TIMESTAMP, b"c", resubmitted_entry.resubmission_document("0/0"), [*HEADERS]),
        DeferralTable([resubmitted_entry]),
    )


def test_deferred_commands_are_encrypted() -> None:
    decisions, resubmitted_record, table = defer_and_resubmit(None)
    (key,) = decisions.data_keys.values()
    assert resubmitted_record.value is not None and not any(
        plain in resubmitted_record.value for plain in PLAIN_TEXTS
    )
    later_decisions = decide_batch(CUSTOMER, [resubmitted_record], context(key, table))
    assert verdicts(later_decisions) == ["accepted"]
    assert later_decisions.states["c"].state == Customer("Ann Smith", "ann@home", "free")


def test_deferred_command_ends_with_its_key() -> None:
    decisions, resubmitted_record, table = defer_and_resubmit(None)
    (key,) = decisions.data_keys.values()
    later_decisions = decide_batch(CUSTOMER, [erase(4), resubmitted_record], context(key, table))
    assert verdicts(later_decisions) == ["accepted", "ERASED"]
    assert list(later_decisions.deferral_changes.values()) == [None] and not later_decisions.dead_letters
    other_key = DataKey.of_random(bytes(KID_BYTES + SECRET_BYTES))
    assert verdicts(decide_batch(CUSTOMER, [resubmitted_record], context(other_key, table))) == ["ERASED"]


def test_encrypted_copy_without_entry_is_refused() -> None:
    decisions, resubmitted_record, _ = defer_and_resubmit(None)
    (key,) = decisions.data_keys.values()
    copy = replace(
        resubmitted_record, value=(resubmitted_record.value or b"").replace(b',"deferredfrom":"0/0"', b"")
    )
    assert verdicts(decide_batch(CUSTOMER, [copy], context(key, DeferralTable()))) == ["INVALID_PAYLOAD"]


def test_payload_of_deferred_command_is_encrypted() -> None:
    data = json.dumps(ANN, separators=(",", ":")).encode()
    reference = reference_to(data)
    command_record = register(0, notbefore="2999-01-01T00:00:00Z")
    members = json.loads(command_record.value or b"") | reference.attributes("customer")
    value = json.dumps({**members, "data": None}).encode()
    decisions = decide_batch(
        CUSTOMER, [replace(command_record, value=value)], context(payloads={reference: data})
    )
    (entry,) = decisions.deferral_changes.values()
    ((stored_reference, encrypted),) = decisions.payloads.items()
    (key,) = decisions.data_keys.values()
    assert entry is not None and key is not None and verdicts(decisions) == ["NOT_YET"]
    assert find_reference(entry.command) == stored_reference == reference_to(encrypted) != reference
    location = ValueLocation("customer", "c", command_location("id-0"), "")
    assert (
        json.loads(
            decrypt_data(CUSTOMER.commands["customer.Register"], encrypted, {key.kid: key}.get, location)
        )
        == ANN
    )
